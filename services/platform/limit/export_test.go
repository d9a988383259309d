package limit

// Users returns how many users have a running call.
func (s *Service) Users() int { return len(s.reports.users) + len(s.exports.users) }
