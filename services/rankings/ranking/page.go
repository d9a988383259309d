package ranking

import (
	"context"
	"slices"

	"stepboard/internal/reuse"
	"stepboard/models"
	"stepboard/services/boards/score"
	"stepboard/services/platform/cursor"
)

// page is a page of a ranking, of which Total, Entries and Me are set. Nobody in it has a
// name.
type page struct {
	*models.Ranking
	// users are those of the entries and then of Me, if that is set.
	users []models.RowID
	// leader is who leads a circle; 0 if nobody has a score, and in global lists.
	leader models.RowID
	// next is the position of the last entry if others follow; otherwise zero.
	next models.Cursor
}

// rank ranks the people of a circle by their scores, which it reorders.
func (r *request) rank(a *attempt, found scores) page {
	if r.bucket == nil {
		return r.rankSums(found.sums)
	}
	return pageOf(a.bucket, Rank(found.entries, r.viewer, r.after(), r.limit))
}

// after returns the position of the cursor in a bucket.
func (r *request) after() models.Entry {
	return models.Entry{User: r.cursor.Row, Composite: models.Composite(r.cursor.Key)}
}

// pageOf returns a page of a bucket, which is nil if nothing was ever written to it.
func pageOf(bucket *models.Bucket, ranked Page) page {
	p := newPage(len(ranked.Entries))
	if bucket == nil {
		return p
	}
	p.Total, p.leader = ranked.Total, ranked.Leader.User
	codec := score.Of(bucket)
	fill := func(line *models.RankedEntry, composite models.Composite) {
		points, reachedAt := codec.Decode(composite)
		line.Score, line.ReachedAt = bucket.Score(points), reachedAt
	}
	for i, e := range ranked.Entries {
		line := &p.Entries[i]
		p.users[i], line.Rank = e.User, ranked.FirstRank+int64(i)
		fill(line, e.Composite)
	}
	if ranked.MyRank != 0 {
		p.users, p.Me = append(p.users, ranked.Mine.User), &models.RankedEntry{Rank: ranked.MyRank}
		fill(p.Me, ranked.Mine.Composite)
	}
	if ranked.More {
		last := ranked.Entries[len(ranked.Entries)-1]
		p.next = models.Cursor{Key: int64(last.Composite), Row: last.User}
	}
	return p
}

// newPage returns a page with n entries to fill in.
func newPage(n int) page {
	p := page{Ranking: &models.Ranking{}, users: make([]models.RowID, n, n+2)} // and Me and the leader
	p.MakeEntries(n)
	return p
}

// rankSums is rank for a span.
func (r *request) rankSums(entries []models.SumEntry) page {
	slices.SortFunc(entries, models.SumEntry.Compare)
	first, shown, next := cursor.Cut(entries, r.cursor, r.limit, models.SumEntry.ComparePosition, models.SumEntry.Position)
	p := newPage(len(shown))
	p.Total, p.next = int64(len(entries)), next
	if len(entries) > 0 {
		p.leader = entries[0].User
	}
	for i, e := range shown {
		p.users[i], p.Entries[i] = e.User, sumLine(e, first+i)
	}
	if i := slices.IndexFunc(entries, func(e models.SumEntry) bool { return e.User == r.viewer }); i >= 0 {
		me := sumLine(entries[i], i)
		p.users, p.Me = append(p.users, r.viewer), &me
	}
	return p
}

// sumLine returns a line of a ranking of sums, at a place counted from 0, without its user.
func sumLine(e models.SumEntry, place int) models.RankedEntry {
	return models.RankedEntry{Rank: int64(place + 1), Score: e.Score, ReachedAt: e.ReachedAt, Days: e.Days}
}

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
