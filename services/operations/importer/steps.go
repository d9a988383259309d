package importer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"stepboard/models"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/score"
)

const (
	// raiseBatch is how many totals one call raises, raiseGently that of a gentle import:
	// Redis serves nobody else for about a microsecond for each. raiseCalls is the
	// number of calls at a time.
	raiseBatch  = 5000
	raiseGently = 500
	raiseCalls  = 4
	// coldBatch is how many totals of cold days Redis holds at most before they
	// are archived: about 100 MB.
	coldBatch = 1_000_000
	// archivesAtOnce is how many days are archived at a time: as many as the archive takes.
	archivesAtOnce = 2
)

// StepsResult counts what an import of steps has done.
type StepsResult struct {
	// Raised is the number of totals that were above what was stored, or were reached
	// earlier, and Unchanged that of the others, whose day has at least as much already. If a file
	// has a user's day more than once, each of its lines may count.
	Raised, Unchanged int
	// Empty is the number of lines without a number of steps, LeftOut that of lines which --where
	// does not take.
	Empty, LeftOut int
	// Archived is the number of cold days that were archived, Waiting that of
	// cold days that the next run of the archive takes.
	Archived, Waiting int
}

// total is a user's total for a day.
type total struct {
	user      models.UserID
	date      models.Date
	score     int64
	reachedAt time.Time // zero if the file has no times
	line      int       // the last one of the day
	lines     int       // how many the day has
}

// stepsImport stores the totals of one file.
type stepsImport struct {
	service *Service
	board   *catalog.Board
	report  Report
	check   *lineCheck
	now     time.Time
	pace    *pace
	pass    func(*stepsChunk) error
	next    *stepsChunk // the one that is being read
	// stored counts totals and days, and skipped lines that have none. Each is written by one of the
	// two goroutines of inChunks.
	stored, skipped StepsResult
	buckets         map[models.Date]*models.Bucket // those of earlier lines
	growth          *growth

	// cold holds the cold buckets that were raised since the last archival,
	// coldRaised the number of their totals.
	cold       map[*models.Bucket]bool
	coldRaised int
}

// stepsChunk is a number of totals that are stored together.
type stepsChunk struct {
	totals []total
	raises []models.Raise // of the totals whose users are there
	lines  int
	// lookup is how long it took to look up and make the days and the users.
	lookup time.Duration
}

// StepsImportOptions holds the options of ImportSteps, which sets Zone and Note.
type StepsImportOptions struct {
	StepsOptions

	// Gently halves the rate, in favor of everything else that uses the stores.
	Gently bool
}

// ImportSteps reads daily or hourly totals, as EachSteps does, and
// raises them on the board. The hours of a day add up; the same hour twice counts once, with
// the larger steps, unless a clock change repeats it. A file of bad lines is an error, at the
// latest after onlyBad of them. A file of hours may have maxUserDays; a board that ranks the lowest
// score first takes none (CodeBoardKind), as its scores don't add up. Totals of hot days are raised where uploads are;
// cold days are archived. Importing the same file again changes nothing. A gentle import
// takes twice as long, in favor of everything else that uses the stores. After
// an error, or when ctx ends, what was raised remains; a chunk that is being stored when
// ctx ends is completed.
func (s *Service) ImportSteps(ctx context.Context, in io.Reader, board *catalog.Board, o StepsImportOptions, report Report) (StepsResult, error) {
	i := &stepsImport{
		service: s, board: board, report: report, check: newLineCheck(report, stepsExpected), now: s.Clock(), pace: s.newPace(o.Gently, gentleSteps),
		next: &stepsChunk{}, buckets: make(map[models.Date]*models.Bucket), growth: s.growthOf("users"), cold: make(map[*models.Bucket]bool),
	}
	o.Note = report.Note
	if o.Zone = board.Zone(); board.TimeZone == models.LocalZone {
		o.Zone = nil
	}
	err := inChunks(ctx, in, o.Gently, func(ctx context.Context, pass func(*stepsChunk) error) error {
		i.pass = pass
		if err := i.readFile(ctx, in, o.StepsOptions); err != nil {
			return err
		}
		return i.flush(ctx)
	}, i.store)
	i.growth.end(ctx)
	if err == nil {
		err = i.archive(ctx)
	}
	result := i.stored
	result.Empty, result.LeftOut = i.skipped.Empty, i.skipped.LeftOut
	return result, err
}

// readFile reads all lines.
func (i *stepsImport) readFile(ctx context.Context, in io.Reader, o StepsOptions) error {
	hours := newHourly(i)
	err := EachSteps(ctx, in, o, func(l StepsLine, bad error) error {
		i.report.Line()
		switch {
		case errors.Is(bad, ErrNoSteps):
			i.skipped.Empty++
			return nil
		case errors.Is(bad, ErrLeftOut):
			i.skipped.LeftOut++
			return nil
		case bad != nil:
			return i.check.bad(l.Number, bad)
		case l.Hourly:
			if err := i.board.RequireHigh("imports of hours, which add up"); err != nil {
				return err
			}
			return hours.add(ctx, l)
		}
		// The file does not say when a total was reached, so it counts as reached at the
		// day's end.
		return i.raise(ctx, total{user: l.User, date: l.Date, score: l.Steps, line: l.Number, lines: 1})
	})
	if err == nil {
		err = hours.finish(ctx)
	}
	if err == nil {
		err = i.check.end()
	}
	return err
}

// bucket returns the bucket of a line's day, or nil if the line was reported as
// bad.
func (i *stepsImport) bucket(ctx context.Context, date models.Date, line int) (*models.Bucket, error) {
	if bucket := i.buckets[date]; bucket != nil {
		return bucket, nil
	}
	bucket, err := i.service.Buckets.Importable(ctx, i.board, date, i.now)
	if models.CodeOf(err) == models.CodeUnavailable {
		return nil, err
	}
	if err != nil {
		return nil, i.check.bad(line, err)
	}
	i.buckets[date] = bucket
	return bucket, nil
}

// raise adds a total to the chunk, or reports its line as bad.
func (i *stepsImport) raise(ctx context.Context, t total) error {
	bucket, err := i.bucket(ctx, t.date, t.line)
	if bucket == nil {
		return err
	}
	if _, err := i.composite(bucket, t); err != nil {
		return i.check.bad(t.line, err)
	}
	i.check.good(t.line, t.user)
	i.next.totals = append(i.next.totals, t)
	i.next.lines += t.lines
	if len(i.next.totals) < i.pace.size() {
		return nil
	}
	return i.flush(ctx)
}

// composite returns the composite of a total. One without a time counts as reached on the day's
// last tick: earlier, it would be ahead of phones that reported the same total with a time. None is reached later than now.
func (i *stepsImport) composite(bucket *models.Bucket, t total) (models.Composite, error) {
	if t.score > bucket.MaxScore {
		return 0, fmt.Errorf("%d steps on %v are more than the board's largest score, %d", t.score, t.date, bucket.MaxScore)
	}
	codec := score.Of(bucket)
	reachedAt := t.reachedAt
	if reachedAt.IsZero() {
		reachedAt = bucket.EndsAt.Add(-time.Millisecond)
	}
	if reachedAt.After(i.now) {
		reachedAt = i.now
	}
	return codec.Encode(bucket.Points(t.score), codec.Cut(models.TimestampOf(reachedAt)))
}

// flush passes on the chunk that was read, with its buckets and the rows of its users. It makes
// those that do not exist. Lines of users whom only signing up makes, and who are not there, are bad.
func (i *stepsImport) flush(ctx context.Context) error {
	chunk := i.next
	if err := ctx.Err(); err != nil || len(chunk.totals) == 0 {
		return err
	}
	start := time.Now()
	users, days := make([]models.UserID, len(chunk.totals)), make(map[models.Date]*models.Bucket)
	for n, t := range chunk.totals {
		users[n], days[t.date] = t.user, i.buckets[t.date]
	}
	made, err := i.service.Buckets.Make(ctx, slices.Collect(maps.Values(days)))
	if err != nil {
		return err
	}
	for _, bucket := range made {
		i.buckets[bucket.Day] = bucket
	}
	rows, err := i.service.Directory.EnsureMany(ctx, users)
	if err != nil {
		return err
	}
	chunk.raises = make([]models.Raise, 0, len(rows))
	for n, t := range chunk.totals {
		if rows[n] == 0 {
			chunk.lines -= t.lines
			if err := i.report.BadLine(t.line, models.NoUser(t.user)); err != nil {
				return err
			}
			continue
		}
		bucket := i.buckets[t.date]
		composite, err := i.composite(bucket, t)
		if err != nil { // another process made the day meanwhile, with other limits
			return fmt.Errorf("line %d: %w", t.line, err)
		}
		chunk.raises = append(chunk.raises, models.Raise{Bucket: bucket, Entry: models.Entry{User: rows[n], Composite: composite}})
	}
	chunk.lookup = time.Since(start)
	i.next = &stepsChunk{}
	if len(chunk.raises) == 0 {
		return nil
	}
	return i.pass(chunk)
}

// store stores a chunk.
func (i *stepsImport) store(ctx context.Context, c *stepsChunk) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	start := time.Now()
	var hot, cold []models.Raise
	for _, r := range c.raises {
		if r.Bucket.Cold(i.now) {
			i.cold[r.Bucket] = true
			cold = append(cold, r)
		} else {
			hot = append(hot, r)
		}
	}
	if err := i.raiseAll(ctx, i.service.RaiseCold, cold, i.service.Entries, i.service.Archive); err != nil {
		return err
	}
	if err := i.raiseAll(ctx, i.service.RaiseHot, hot, i.service.Entries); err != nil {
		return err
	}
	i.growth.add(ctx, len(c.raises))
	i.report.Done(c.lines)
	i.pace.stored(ctx, len(c.raises), c.lookup, time.Since(start))
	if i.coldRaised += len(cold); i.coldRaised < coldBatch {
		return nil
	}
	return i.archive(ctx)
}

// raiseAll raises totals by several calls at a time, one in a gentle import, and counts those
// that are above what the stores have. It goes on if ctx ends.
func (i *stepsImport) raiseAll(
	ctx context.Context, raise func(context.Context, []models.Raise) []error, raises []models.Raise, stores ...Scores,
) error {
	batch, calls := raiseBatch, raiseCalls
	if i.pace.gently {
		batch, calls = raiseGently, 1
	}
	g, ctx := errgroup.WithContext(context.WithoutCancel(ctx))
	g.SetLimit(calls)
	var raised, unchanged atomic.Int64
	defer func() {
		i.stored.Raised += int(raised.Load())
		i.stored.Unchanged += int(unchanged.Load())
	}()
	for part := range slices.Chunk(raises, batch) {
		if ctx.Err() != nil {
			break // a call has failed
		}
		g.Go(func() error {
			above, err := countAbove(ctx, part, stores)
			if err != nil {
				return notRaised(slices.Repeat([]error{err}, len(part)))
			}
			if errs := raise(ctx, part); errs != nil {
				return notRaised(errs)
			}
			raised.Add(int64(above))
			unchanged.Add(int64(len(part) - above))
			return nil
		})
	}
	return g.Wait()
}

// countAbove returns how many users' days the raises would raise above what the stores have.
func countAbove(ctx context.Context, raises []models.Raise, stores []Scores) (int, error) {
	type userDay struct {
		bucket *models.Bucket
		user   models.RowID
	}
	highest := make(map[userDay]models.Composite, len(raises))
	for _, store := range stores {
		stored, err := store.CompositesBefore(ctx, raises)
		if err != nil {
			return 0, err
		}
		for i, r := range raises {
			key := userDay{r.Bucket, r.User}
			highest[key] = max(highest[key], stored[i])
		}
	}
	above := make(map[userDay]bool)
	for _, r := range raises {
		if key := (userDay{r.Bucket, r.User}); r.Composite > highest[key] {
			above[key] = true
		}
	}
	return len(above), nil
}

// archive archives the cold days that were raised, as the nightly job does with
// late updates. Its error is that of the first day that has failed.
func (i *stepsImport) archive(ctx context.Context) error {
	buckets := slices.SortedFunc(maps.Keys(i.cold), func(a, b *models.Bucket) int { return int(a.Day - b.Day) })
	var archived, waiting atomic.Int64
	g, running := errgroup.WithContext(ctx)
	if g.SetLimit(archivesAtOnce); i.pace.gently || i.service.OneWriter {
		g.SetLimit(1)
	}
	for _, bucket := range buckets {
		g.Go(func() error {
			if running.Err() != nil && ctx.Err() == nil {
				return nil // another one has failed
			}
			_, err := i.service.Archive.Archive(ctx, bucket, func(int64) {})
			switch models.CodeOf(err) {
			case "":
				archived.Add(1)
			case models.CodeBucketHot, models.CodeArchiveRunning:
				waiting.Add(1)
			default:
				return fmt.Errorf("the totals are stored, and the next archival moves them: %w", err)
			}
			return nil
		})
	}
	err := g.Wait()
	i.stored.Archived += int(archived.Load())
	i.stored.Waiting += int(waiting.Load())
	clear(i.cold)
	i.coldRaised = 0
	return err
}

// notRaised returns one error for a batch. Its updates share a few commands, so
// a few errors are repeated thousands of times.
func notRaised(errs []error) error {
	failed := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	return fmt.Errorf("%d of %d totals were not raised: %w", len(failed), len(errs), cmp.Or(failed...))
}
