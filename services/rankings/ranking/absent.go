package ranking

import (
	"cmp"
	"context"
	"slices"

	"stepboard/models"
	"stepboard/services/platform/cursor"
)

// Absent is a page of those of whom a viewer is shown no score.
type Absent struct {
	Board string
	// Date is the day; nil if the board has no days.
	Date *string
	// Total is how many they are on all pages together.
	Total int
	// People is the page, ordered by row.
	People []models.PublicRecord
	// NextCursor is where the next page begins; nil on the last.
	NextCursor *string
}

// AbsentFriends lists those of a user's friends of whom Friends ranks no score in the same
// bucket. It tells nothing of why: they have none, they hide, or an operator has excluded them. Whom
// the user has muted is left out, and so are friends who don't show an archived day. Spans and
// likes are not for it. Two queries, or one and a round trip to Redis for the scores, if memory
// does not have them. CodeUnavailable if SQL is away.
func (s *Service) AbsentFriends(ctx context.Context, q Query) (*Absent, error) {
	return s.absent(ctx, q, "", "absent friends", string(q.Viewer))
}

// AbsentMembers is AbsentFriends for the present members of a group. Whom the user has blocked is
// left out, too. CodeNotFound if the viewer is not a member.
func (s *Service) AbsentMembers(ctx context.Context, q Query, group models.GroupID) (*Absent, error) {
	return s.absent(ctx, q, group, "absent members", string(q.Viewer), string(group))
}

// absent lists the absent people. group, call and scope are those of rankCircle.
func (s *Service) absent(
	ctx context.Context, q Query, group models.GroupID, call string, scope ...string,
) (found *Absent, err error) {
	r, err := s.resolve(ctx, q, call, scope...)
	if err != nil {
		return nil, err
	}
	r.group = group
	err = s.answer(ctx, &r, func(a *attempt) error {
		absent, err := s.absentOf(ctx, &r, a)
		if err != nil {
			return err
		}
		found, err = s.absentPage(ctx, &r, a, absent)
		return err
	})
	return found, err
}

// absentOf returns the people of whom the viewer is shown no score, ascending.
func (s *Service) absentOf(ctx context.Context, r *request, a *attempt) ([]models.RowID, error) {
	viewer := a.viewer(r)
	everybody, err := s.everybody(ctx, r.group, viewer)
	if err != nil {
		return nil, err
	}
	var absent, shown []models.RowID
	old := s.old(r.now, a.oldest)
	for _, p := range everybody {
		switch {
		case p.User == viewer || slices.Contains(a.gone, p.User) || s.o.Rules.Erased(p.User):
		case old && !p.Since.Before(s.shownBefore(a.oldest)):
		case p.Shown && a.bucket != nil:
			shown = append(shown, p.User)
		default:
			absent = append(absent, p.User)
		}
	}
	if len(shown) == 0 {
		return absent, nil
	}
	found, err := s.scores(ctx, r, a, shown)
	for _, e := range found.entries {
		if e.Composite == 0 {
			absent = append(absent, e.User)
		}
	}
	slices.Sort(absent)
	return absent, err
}

// everybody returns the members of a group, or a viewer's friends if that is empty, ascending: also those whose
// scores the viewer is not shown, but without whom the viewer has muted or blocked. The viewer may be among
// them. One query.
func (s *Service) everybody(ctx context.Context, group models.GroupID, viewer models.RowID) ([]models.CirclePerson, error) {
	switch {
	case group != "":
		return s.o.Groups.Everybody(ctx, group, viewer)
	case viewer == 0:
		return nil, nil
	default:
		return s.o.Friends.Everybody(ctx, viewer)
	}
}

// absentPage returns the page of absent people that a request asks for. It reads the records of
// these only, and notes in the attempt who has none.
func (s *Service) absentPage(ctx context.Context, r *request, a *attempt, absent []models.RowID) (*Absent, error) {
	found := &Absent{Board: r.board.Name, Date: r.date(), Total: len(absent)}
	_, page, next := cursor.Cut(absent, r.cursor, r.limit,
		func(row models.RowID, at models.Cursor) int { return cmp.Compare(row, at.Row) },
		func(row models.RowID) models.Cursor { return models.Cursor{Row: row} })
	found.NextCursor = s.o.Cursors.Next(next, r.scope...)
	if len(page) == 0 {
		return found, nil
	}
	found.People = make([]models.PublicRecord, len(page))
	if err := s.o.Directory.Describe(ctx, page, found.People); err != nil {
		return nil, err
	}
	for i := range page {
		if found.People[i].User == "" {
			a.gone = append(a.gone, page[i])
		}
	}
	return found, nil
}
