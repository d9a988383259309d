package ranking

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"stepboard/internal/concurrent"
	"stepboard/internal/reuse"
	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/score"
)

// request is a resolved query and the ranking that answers it.
type request struct {
	now time.Time
	// viewer is the viewer's row; 0 without a viewer, or if the viewer does not exist.
	viewer models.RowID
	// bucket is nil if nothing was ever written to it. The ranking is complete
	// then.
	bucket *models.Bucket
	codec  score.Codec
	// after is the position of the cursor; zero for the top.
	after models.Entry
	// scope identifies the list that a cursor belongs to.
	scope []string
	// asOf is the moment for which the circle and the scores are complete, if they are
	// from the near cache; otherwise zero.
	asOf    time.Time
	ranking *models.Ranking
	// leader is who leads the circle; 0 if nobody has a score, and in global lists.
	leader models.RowID
	// gone are those of a circle's ranking who have no record, as they were erased meanwhile.
	gone []models.RowID
	// global reports that the ranking lists strangers. Then notShown, ascending, has those
	// whom the viewer is not shown because of a choice of either of the two.
	global   bool
	notShown []models.RowID
}

// resolve finds the board, the bucket and the position that a query asks for. It
// makes one round trip to Redis for a rolling board, none otherwise. A bucket that does not
// exist costs what catalog.Buckets.Existing says.
func (s *Service) resolve(ctx context.Context, q Query, call string, scope ...string) (*request, error) {
	b, err := s.catalog.Definitions.Board(q.Board)
	if err != nil {
		return nil, err
	}
	now := s.clock()
	expected, err := s.catalog.Buckets.Resolve(b, q.Date, now, q.Offset)
	if err != nil {
		return nil, err
	}
	r := &request{
		now:     now,
		scope:   append([]string{call, b.Name, expected.Name}, scope...),
		ranking: &models.Ranking{Board: b.Name, Source: models.SourceHot, Final: expected.Final(now), Entries: []models.RankedEntry{}},
	}
	if d := b.Date(expected); d != nil {
		text := d.String()
		r.ranking.Date = &text
	}
	cursor, err := s.open(ctx, r, q)
	if err != nil {
		return nil, err
	}
	r.after = models.Entry{User: cursor.Row, Composite: models.Composite(cursor.Key)}
	bucket, err := s.catalog.Buckets.Existing(ctx, expected)
	if errors.Is(err, catalog.ErrNoBucket) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	r.bucket, r.codec = bucket, score.Of(bucket)
	r.ranking.Final = bucket.Final(now)
	if bucket.WindowHours > 0 {
		settling, err := s.boards.Settling(ctx, bucket)
		if err != nil {
			return nil, err
		}
		r.ranking.Settling = &settling
	}
	return r, nil
}

// open opens the cursor of a query, which is zero for the top, and finds the viewer.
func (s *Service) open(ctx context.Context, r *request, q Query) (cursor models.Cursor, err error) {
	if q.Cursor != "" {
		if cursor, err = s.cursors.Open(ctx, q.Cursor, r.scope...); err != nil {
			return cursor, err
		}
	}
	if q.Viewer != "" {
		r.viewer, err = s.directory.FindOne(ctx, q.Viewer)
	}
	return cursor, err
}

// read calls fn with the store that has the request's bucket. A cold bucket is
// either whole in the archive or still whole in Redis. After fn has read a cold
// bucket in Redis, read checks the archive again: if the bucket was archived
// meanwhile, some of its entries may have been dropped already, and fn is called
// a second time, with the archive.
func (s *Service) read(ctx context.Context, r *request, fn func(Reader) error) error {
	hot := func() error {
		s.confirmFinal(ctx, r, r.bucket)
		return fn(s.boards)
	}
	if !r.bucket.Cold(r.now) {
		return hot()
	}
	archived, err := s.archive.Complete(ctx, r.bucket)
	if err != nil {
		return err
	}
	if !archived {
		if err := hot(); err != nil {
			return err
		}
		if archived, err = s.archive.Complete(ctx, r.bucket); err != nil || !archived {
			return err
		}
	}
	r.ranking.Source, r.ranking.Final = models.SourceArchive, r.bucket.Final(r.now)
	return fn(s.archive)
}

// composites returns the composites of users that are shown, by position. from is the store
// that read has found.
func (s *Service) composites(
	ctx context.Context, r *request, from Reader, users []models.RowID,
) ([]models.Composite, error) {
	composites, err := from.Composites(ctx, r.bucket, users)
	if err != nil {
		return nil, err
	}
	if r.ranking.Source == models.SourceHot {
		s.rules.Show(r.bucket, users, composites)
		return composites, nil
	}
	for i, user := range users {
		if s.rules.Erased(user) {
			composites[i] = 0
		}
	}
	return composites, nil
}

// readGlobal is read for a ranking of all users. At the same time, it reads who is not
// shown to the viewer: what costs no time may cost a round trip. If it can't, the ranking
// fails, because it would show them.
func (s *Service) readGlobal(ctx context.Context, r *request, fn func(Reader) error) error {
	r.global = true
	var (
		reading     sync.WaitGroup
		notShownErr error
	)
	if r.viewer != 0 {
		concurrent.Go(ctx, &reading, func() { r.notShown, notShownErr = s.privacy.NotShown(ctx, r.viewer) })
	}
	err := s.read(ctx, r, fn)
	reading.Wait()
	slices.Sort(r.notShown)
	return cmp.Or(err, notShownErr)
}

// anonymous reports whether the viewer is not shown whose entry of a global list it is, or
// whether it is nobody's: erased users have no record.
func (r *request) anonymous(user models.RowID, record *models.PublicRecord) bool {
	if user == r.viewer {
		return record.User == ""
	}
	_, apart := slices.BinarySearch(r.notShown, user)
	return apart || record.Hidden || record.User == ""
}

// userWindow is a user's entry, its rank, and the entries around it. Without a
// score the composite and the rank are 0.
type userWindow struct {
	entry models.Entry
	rank  int64
	board.Window
}

// windowAttempts bounds how often windowAround reads a user whose score keeps
// changing.
const windowAttempts = 4

// windowAround reads the entry of a user (0 for one that does not exist), up to back entries before it, and up to
// forward entries (1 or more) from it on. Two round trips. If the entry changes
// between them, it reads both again, so that rank and entry belong together.
func (s *Service) windowAround(
	ctx context.Context, r *request, from Reader, user models.RowID, back, forward int,
) (userWindow, error) {
	var w userWindow
	for range windowAttempts {
		w = userWindow{entry: models.Entry{User: user}}
		if user != 0 {
			composites, err := s.composites(ctx, r, from, []models.RowID{user})
			if err != nil {
				return userWindow{}, err
			}
			w.entry.Composite = composites[0]
		}
		at := w.entry
		if at.Composite == 0 {
			at, back, forward = board.Top, 0, 0
		}
		window, err := from.Window(ctx, r.bucket, at, back, forward)
		if err != nil {
			return userWindow{}, err
		}
		w.Window = window
		if at == board.Top {
			break
		}
		w.rank = w.Before + 1
		if len(w.Behind) > 0 && w.Behind[0] == w.entry {
			break
		}
	}
	return w, nil
}

// render returns the ranking with the page as its entries and the viewer's entry as
// its Me, if that has a rank, and its champion. It reads the records of these users only.
func (s *Service) render(ctx context.Context, r *request, page []models.Entry, firstRank int64, mine models.Entry, myRank int64) (*models.Ranking, error) {
	ids := make([]models.RowID, len(page), len(page)+2)
	r.ranking.MakeEntries(len(page))
	for i, e := range page {
		ids[i] = e.User
		r.place(&r.ranking.Entries[i], e, firstRank+int64(i))
	}
	if myRank != 0 {
		ids, r.ranking.Me = append(ids, mine.User), new(models.RankedEntry)
		r.place(r.ranking.Me, mine, myRank)
	}
	return r.ranking, s.describe(ctx, r, ids)
}

// recordsMemory is for the records of pages.
var recordsMemory reuse.Slices[models.PublicRecord]

// describe adds the users' records to the entries of the ranking and to its Me, in this
// order, and sets the champion. It notes who of a circle is gone.
func (s *Service) describe(ctx context.Context, r *request, users []models.RowID) error {
	first := slices.Index(users, r.leader)
	if r.leader != 0 && first < 0 {
		first = len(users)
		users = append(users, r.leader)
	}
	memory := recordsMemory.Get(len(users))
	defer recordsMemory.Put(memory)
	records := *memory
	if err := s.directory.Describe(ctx, users, records); err != nil {
		return err
	}
	for i := range records {
		if records[i].User == "" && !r.global {
			r.gone = append(r.gone, users[i])
		}
	}
	for i := range r.ranking.Entries {
		r.ranking.Entries[i].Describe(&records[i])
		if r.global && r.anonymous(users[i], &records[i]) {
			r.ranking.Entries[i].Anonymize()
		}
	}
	if r.ranking.Me != nil {
		r.ranking.Me.Describe(&records[len(r.ranking.Entries)])
		if r.ranking.Me.User == "" {
			r.ranking.Me = nil
		}
	}
	if r.leader != 0 {
		record := &records[first]
		r.ranking.Champion = &models.Champion{
			User: record.User, Nickname: record.Nickname, AvatarURL: record.AvatarURL, CoverURL: record.CoverURL,
		}
	}
	return nil
}

// place sets the rank and the score of a line of the ranking.
func (r *request) place(line *models.RankedEntry, e models.Entry, rank int64) {
	line.Rank = rank
	line.Score, line.ReachedAt = r.codec.Decode(e.Composite)
}

// setNextCursor sets the ranking's cursor to the page's last entry.
func (s *Service) setNextCursor(r *request, page []models.Entry) {
	last := page[len(page)-1]
	cursor := s.cursors.Seal(models.Cursor{Key: int64(last.Composite), Row: last.User}, r.scope...)
	r.ranking.NextCursor = &cursor
}
