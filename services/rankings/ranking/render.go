package ranking

import (
	"context"
	"slices"

	"stepboard/internal/reuse"
	"stepboard/models"
)

// render makes a page of a circle an answer: it adds what the ranking is of, the cursor, names
// and likes. It notes in the attempt who has no record, because of an erasure meanwhile; the page
// is not valid then. It reads the records of those whom it shows only, and likes with one
// query.
func (s *Service) render(ctx context.Context, r *request, a *attempt, p page) error {
	s.head(r, a.place, p)
	gone, err := s.name(ctx, p, nil)
	a.gone = append(a.gone, gone...)
	if err == nil && len(gone) == 0 && r.likes {
		s.addLikes(ctx, r, p)
	}
	return err
}

// renderGlobal is render for a list of all users. Those who are not shown to the viewer,
// because of a choice of either of the two, are anonymous in it, as are erased users.
func (s *Service) renderGlobal(
	ctx context.Context, r *request, at place, p page, notShown []models.RowID,
) (*models.Ranking, error) {
	s.head(r, at, p)
	slices.Sort(notShown)
	_, err := s.name(ctx, p, func(user models.RowID, record *models.PublicRecord) bool {
		if user == r.viewer {
			return record.User == ""
		}
		_, apart := slices.BinarySearch(notShown, user)
		return apart || record.Hidden || record.User == ""
	})
	return p.Ranking, err
}

// head adds what a page is a page of, and its cursor.
func (s *Service) head(r *request, at place, p page) {
	p.Board, p.Source, p.Final, p.Settling = r.board.Name, at.source(), at.final, at.settling
	if r.bucket == nil {
		from, to := r.from.String(), r.to.String()
		p.From, p.To = &from, &to
	} else {
		p.Date = r.date()
	}
	p.NextCursor = s.o.Cursors.Next(p.next, r.scope...)
}

// date returns the day of a bucket; nil if the board has no days.
func (r *request) date() *string {
	d := r.board.Date(r.bucket)
	if d == nil {
		return nil
	}
	text := d.String()
	return &text
}

// recordsMemory is for the records of pages.
var recordsMemory reuse.Slices[models.PublicRecord]

// name adds the records of users to the lines of a page, and its champion. It leaves lines
// anonymous that a function, which may be nil, says are. It returns the users who have no
// record.
func (s *Service) name(
	ctx context.Context, p page, anonymous func(user models.RowID, record *models.PublicRecord) bool,
) (gone []models.RowID, err error) {
	users := p.users
	first := slices.Index(users, p.leader)
	if p.leader != 0 && first < 0 {
		first = len(users)
		users = append(users, p.leader)
	}
	if len(users) == 0 {
		return nil, nil
	}
	memory := recordsMemory.Get(len(users))
	defer recordsMemory.Put(memory)
	records := *memory
	if err := s.o.Directory.Describe(ctx, users, records); err != nil {
		return nil, err
	}
	for i := range records {
		if records[i].User == "" {
			gone = append(gone, users[i])
		}
	}
	for i := range p.Entries {
		p.Entries[i].Describe(&records[i])
		if anonymous != nil && anonymous(users[i], &records[i]) {
			p.Entries[i].Anonymize()
		}
	}
	if p.Me != nil {
		p.Me.Describe(&records[len(p.Entries)])
		if p.Me.User == "" {
			p.Me = nil
		}
	}
	if p.leader != 0 {
		record := &records[first]
		p.Champion = &models.Champion{
			User: record.User, Nickname: record.Nickname, AvatarURL: record.AvatarURL, CoverURL: record.CoverURL,
		}
	}
	return gone, nil
}

// addLikes adds the likes of the lines of a page and of the viewer's own line. A page whose likes
// can't be read is shown without them, as rankings go on while Postgres is away.
func (s *Service) addLikes(ctx context.Context, r *request, p page) {
	if len(p.users) == 0 {
		return
	}
	counts, err := s.o.Likes.Counts(ctx, r.board.Name, r.bucket.Day, r.viewer, p.users)
	if err != nil {
		return
	}
	for i, user := range p.users {
		line := p.Me
		if i < len(p.Entries) {
			line = &p.Entries[i]
		}
		count := counts[user]
		line.Likes, line.Liked = &count.Likes, &count.Liked
	}
}
