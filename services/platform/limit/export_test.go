package limit

// Users returns how many users have a running call.
func (s *Service) Users() int { return len(s.running) }

// Held returns how many callers a counter holds.
func Held(c *LocalCounter) (n int) {
	for _, callers := range c.kinds {
		n += len(callers.now) + len(callers.previous)
	}
	return n
}
