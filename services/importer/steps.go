package importer

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"stepboard/models"
	"stepboard/services/catalog"
	"stepboard/services/score"
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
)

// StepsResult counts what an import of steps has done.
type StepsResult struct {
	// Raised is the number of totals that were raised.
	Raised int
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
	now     time.Time
	pace    *pace
	pass    func(*stepsChunk) error
	next    *stepsChunk // the one that is being read
	result  StepsResult
	buckets map[models.Date]*models.Bucket // those of earlier lines

	// cold holds the cold buckets that were raised since the last archival,
	// coldRaised the number of their totals.
	cold       map[*models.Bucket]bool
	coldRaised int
}

// stepsChunk is a number of totals that are stored together.
type stepsChunk struct {
	raises []models.Raise
	users  []models.UserID // of the raises, by position
	lines  int
	// lookup is how long it took to look up and create the users.
	lookup time.Duration
}

// lineReader reads the data lines of one format.
type lineReader interface {
	// read takes the fields of a line. It reports a bad line itself.
	read(ctx context.Context, fields []string, line int) error
	// finish is called after the last line.
	finish(ctx context.Context) error
}

// ImportSteps reads daily or hourly totals, as the file's header says, and
// raises them on the board. Totals of hot days are raised where uploads are;
// cold days are archived. Importing the same file again changes nothing. A gentle import
// takes twice as long, in favor of everything else that uses the stores. After
// an error, or when ctx ends, what was raised remains; a chunk that is being stored when
// ctx ends is completed.
func (s *Service) ImportSteps(ctx context.Context, in io.Reader, board *catalog.Board, gently bool, report Report) (StepsResult, error) {
	i := &stepsImport{
		service: s, board: board, report: report, now: s.Clock(), pace: newPace(gently, gentleSteps),
		next: &stepsChunk{}, buckets: make(map[models.Date]*models.Bucket), cold: make(map[*models.Bucket]bool),
	}
	err := inChunks(ctx, in, gently, func(ctx context.Context, pass func(*stepsChunk) error) error {
		i.pass = pass
		if err := i.readFile(ctx, in); err != nil {
			return err
		}
		return i.flush(ctx)
	}, i.store)
	if err == nil {
		err = i.archive(ctx)
	}
	return i.result, err
}

// readFile reads the header and all lines.
func (i *stepsImport) readFile(ctx context.Context, in io.Reader) error {
	var reader lineReader // nil until the header was read
	err := EachLine(ctx, in, func(number int, line string) (err error) {
		switch {
		case line == "":
			return nil
		case reader == nil:
			reader, err = i.readerFor(line)
			return err
		}
		i.report.Line()
		fields, err := splitLine(line)
		if err != nil {
			return i.report.BadLine(number, err)
		}
		return reader.read(ctx, fields, number)
	})
	if err != nil {
		return err
	}
	if reader == nil {
		return errors.New("the file is empty: its first line must name the columns")
	}
	return reader.finish(ctx)
}

// readerFor returns the reader of the format that a header names.
func (i *stepsImport) readerFor(header string) (lineReader, error) {
	switch NormalizeHeader(header) {
	case dailyHeader:
		return daily{i}, nil
	case HourlyHeader:
		return &hourly{stepsImport: i, days: make(map[userDay]*dayTotal)}, nil
	default:
		return nil, fmt.Errorf("the first line is %q: it must be user_id,date,steps or Id,ActivityHour,StepTotal", header)
	}
}

// splitLine splits a line of CSV into its three fields. Lines without quotes take
// a faster way.
func splitLine(line string) (fields []string, err error) {
	if strings.Contains(line, `"`) {
		if fields, err = csv.NewReader(strings.NewReader(line)).Read(); err != nil {
			return nil, fmt.Errorf("the quotes are not valid CSV: %w", err)
		}
	} else {
		fields = strings.Split(line, ",")
	}
	if len(fields) != 3 {
		return nil, fmt.Errorf("%d fields instead of 3", len(fields))
	}
	return fields, nil
}

// bucket returns the bucket of a line's day, or nil if the line was reported as
// bad.
func (i *stepsImport) bucket(ctx context.Context, date models.Date, line int) (*models.Bucket, error) {
	if bucket := i.buckets[date]; bucket != nil {
		return bucket, nil
	}
	bucket, err := i.service.Buckets.ForImport(ctx, i.board, date, i.now)
	if models.CodeOf(err) == models.CodeUnavailable {
		return nil, err
	}
	if err != nil {
		return nil, i.report.BadLine(line, err)
	}
	i.buckets[date] = bucket
	return bucket, nil
}

// raise adds a total to the batch, or reports its line as bad. A total without
// a time counts as reached on the day's last tick. None is reached later than
// now.
func (i *stepsImport) raise(ctx context.Context, t total) error {
	bucket, err := i.bucket(ctx, t.date, t.line)
	if bucket == nil {
		return err
	}
	if t.score > bucket.MaxScore {
		return i.report.BadLine(t.line, fmt.Errorf("%d steps on %v are more than the board's largest score, %d", t.score, t.date, bucket.MaxScore))
	}
	codec := score.Of(bucket)
	reachedAt := t.reachedAt
	if reachedAt.IsZero() {
		reachedAt = bucket.EndsAt.Add(-time.Millisecond)
	}
	if reachedAt.After(i.now) {
		reachedAt = i.now
	}
	composite, err := codec.Encode(t.score, codec.Cut(models.TimestampOf(reachedAt)))
	if err != nil {
		return i.report.BadLine(t.line, err)
	}
	i.next.raises = append(i.next.raises, models.Raise{Bucket: bucket, Entry: models.Entry{Composite: composite}})
	i.next.users = append(i.next.users, t.user)
	i.next.lines += t.lines
	if len(i.next.raises) < i.pace.size() {
		return nil
	}
	return i.flush(ctx)
}

// flush passes on the chunk that was read, with the rows of its users. It creates those
// that do not exist.
func (i *stepsImport) flush(ctx context.Context) error {
	chunk := i.next
	if err := ctx.Err(); err != nil || len(chunk.raises) == 0 {
		return err
	}
	start := time.Now()
	rows, err := i.service.Directory.EnsureMany(ctx, chunk.users)
	if err != nil {
		return err
	}
	for n := range chunk.raises {
		chunk.raises[n].User = rows[n]
	}
	chunk.lookup = time.Since(start)
	i.next = &stepsChunk{}
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
	if err := i.raiseAll(ctx, i.service.RaiseCold, cold); err != nil {
		return err
	}
	if err := i.raiseAll(ctx, i.service.RaiseHot, hot); err != nil {
		return err
	}
	i.result.Raised += len(c.raises)
	i.report.Done(c.lines)
	i.pace.stored(ctx, len(c.raises), c.lookup, time.Since(start))
	if i.coldRaised += len(cold); i.coldRaised < coldBatch {
		return nil
	}
	return i.archive(ctx)
}

// raiseAll raises totals by several calls at a time, one in a gentle import. It goes on
// if ctx ends.
func (i *stepsImport) raiseAll(
	ctx context.Context, raise func(context.Context, []models.Raise) []error, raises []models.Raise,
) error {
	batch, calls := raiseBatch, raiseCalls
	if i.pace.gently {
		batch, calls = raiseGently, 1
	}
	g, ctx := errgroup.WithContext(context.WithoutCancel(ctx))
	g.SetLimit(calls)
	for part := range slices.Chunk(raises, batch) {
		if ctx.Err() != nil {
			break // a call has failed
		}
		g.Go(func() error {
			if errs := raise(ctx, part); errs != nil {
				return notRaised(errs)
			}
			return nil
		})
	}
	return g.Wait()
}

// archive archives the cold days that were raised, as the nightly job does with
// late updates.
func (i *stepsImport) archive(ctx context.Context) error {
	buckets := slices.SortedFunc(maps.Keys(i.cold), func(a, b *models.Bucket) int { return int(a.Day - b.Day) })
	for _, bucket := range buckets {
		_, err := i.service.Archive.Archive(ctx, bucket, func(int64) {})
		switch models.CodeOf(err) {
		case "":
			i.result.Archived++
		case models.CodeBucketHot, models.CodeArchiveRunning:
			i.result.Waiting++
		default:
			return fmt.Errorf("the totals are stored, and the next archival moves them: %w", err)
		}
	}
	clear(i.cold)
	i.coldRaised = 0
	return nil
}

// notRaised returns one error for a batch. Its updates share a few commands, so
// a few errors are repeated thousands of times.
func notRaised(errs []error) error {
	var first error
	failed := 0
	for _, err := range errs {
		if err == nil {
			continue
		}
		failed++
		if first == nil {
			first = err
		}
	}
	return fmt.Errorf("%d of %d totals were not raised: %w", failed, len(errs), first)
}
