package app

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"stepboard/models"
	"stepboard/services/catalog"
	"stepboard/services/score"
)

// raiseBatch is how many totals one round trip to Redis raises.
const raiseBatch = 5000

// coldBatch is how many totals of cold days are in Redis at most before they
// are archived: about 100 MB.
const coldBatch = 1_000_000

// maxSteps keeps the sum of a day's hours far from overflow.
const maxSteps = 1 << 40

// total is a user's total for a day, as an import found it.
type total struct {
	user      models.UserID
	date      models.Date
	score     int64
	reachedAt time.Time
	line      int
}

// stepsImport writes the totals of one file.
type stepsImport struct {
	app    *App
	board  *catalog.Board
	report *report
	now    time.Time

	raises []models.Raise
	users  map[models.UserID]models.Profile // of this batch
	raised int

	// cold is the buckets that have turned cold and were raised since the last
	// archival, and coldRaised how many totals that were.
	cold              map[*models.Bucket]bool
	coldRaised        int
	archived, waiting int
}

// importSteps reads daily or hourly totals, as the file's header says.
func importSteps(ctx context.Context, a *App, in io.Reader, boardName string, r *report) error {
	b, err := a.Catalog.Definitions.Board(boardName)
	if err != nil {
		return fmt.Errorf("--board %s: %w", boardName, err)
	}
	s := &stepsImport{
		app: a, board: b, report: r, now: r.clock(),
		users: make(map[models.UserID]models.Profile), cold: make(map[*models.Bucket]bool),
	}
	var (
		read   func([]string, int) error // nil until the header was read
		finish func() error
	)
	err = eachLine(ctx, in, func(number int, line string) error {
		if line == "" {
			return nil
		}
		if read == nil {
			var err error
			read, finish, err = s.format(ctx, line)
			return err
		}
		r.line()
		fields, err := fieldsOf(line)
		if err != nil {
			return r.skip(number, err)
		}
		if len(fields) != 3 {
			return r.skip(number, fmt.Errorf("%d fields instead of 3", len(fields)))
		}
		return read(fields, number)
	})
	if err != nil {
		return err
	}
	if read == nil {
		return errors.New("the file is empty: its first line must name the columns")
	}
	if err := finish(); err != nil {
		return err
	}
	if err := s.flush(ctx); err != nil {
		return err
	}
	if err := s.archive(ctx); err != nil {
		return err
	}
	r.add("totals raised", s.raised)
	if s.archived > 0 {
		r.add("days archived", s.archived)
	}
	if s.waiting > 0 {
		r.add("days left to the next archival", s.waiting)
	}
	return nil
}

// fieldsOf splits a line of CSV, quickly where nothing is quoted.
func fieldsOf(line string) ([]string, error) {
	if !strings.Contains(line, `"`) {
		return strings.Split(line, ","), nil
	}
	fields, err := csv.NewReader(strings.NewReader(line)).Read()
	if err != nil {
		return nil, fmt.Errorf("quotes that are no CSV: %w", err)
	}
	return fields, nil
}

// format picks the reader for a header: what to do with each line and at the
// end.
func (s *stepsImport) format(ctx context.Context, header string) (read func([]string, int) error, finish func() error, err error) {
	switch columns(header) {
	case dailyColumns:
		read = func(fields []string, line int) error { return s.daily(ctx, fields, line) }
		return read, func() error { return nil }, nil
	case hourlyColumns:
		h := &hourly{imp: s, days: make(map[userDay]*dayTotal)}
		read = func(fields []string, line int) error { return h.read(ctx, fields, line) }
		return read, func() error { return h.finish(ctx) }, nil
	default:
		return nil, nil, fmt.Errorf("the first line is %q: it must be user_id,date,steps or Id,ActivityHour,StepTotal", header)
	}
}

// The headers of step files, as columns answers them.
const (
	dailyColumns  = "user_id,date,steps"
	hourlyColumns = "id,activityhour,steptotal"
)

// columns is a header without what writers of such files differ in.
func columns(header string) string {
	return strings.ToLower(strings.NewReplacer(" ", "", `"`, "").Replace(header))
}

// daily takes a line user_id,date,steps. The file does not say when the total
// was reached, so it counts as reached at the day's end.
func (s *stepsImport) daily(ctx context.Context, fields []string, line int) error {
	user, err := models.ParseUserID(strings.TrimSpace(fields[0]))
	if err != nil {
		return s.report.skip(line, fmt.Errorf("%q: %w", fields[0], err))
	}
	date, err := models.ParseDate(strings.TrimSpace(fields[1]))
	if err != nil {
		return s.report.skip(line, fmt.Errorf("%q: %w", fields[1], err))
	}
	steps, err := parseSteps(fields[2])
	if err != nil {
		return s.report.skip(line, err)
	}
	return s.raise(ctx, total{user: user, date: date, score: steps, line: line})
}

func parseSteps(field string) (int64, error) {
	steps, err := strconv.ParseInt(strings.TrimSpace(field), 10, 64)
	if err != nil || steps < 0 || steps > maxSteps {
		return 0, fmt.Errorf("%q is not a whole number of steps from 0 to %d", field, maxSteps)
	}
	return steps, nil
}

// bucket finds the bucket of a line's day; nil if the line was reported.
func (s *stepsImport) bucket(ctx context.Context, date models.Date, line int) (*models.Bucket, error) {
	bucket, err := s.app.Catalog.Buckets.ForImport(ctx, s.board, date, s.now)
	if models.CodeOf(err) == models.CodeUnavailable {
		return nil, err
	}
	if err != nil {
		return nil, s.report.skip(line, err)
	}
	return bucket, nil
}

// raise sends a total on its way, or reports its line. A total without a time
// was reached on the day's last tick; none later than now.
func (s *stepsImport) raise(ctx context.Context, t total) error {
	bucket, err := s.bucket(ctx, t.date, t.line)
	if bucket == nil {
		return err
	}
	if t.score > bucket.MaxScore {
		return s.report.skip(t.line, fmt.Errorf("%d steps on %v are more than the board's largest score, %d", t.score, t.date, bucket.MaxScore))
	}
	codec := score.Of(bucket)
	reachedAt := t.reachedAt
	if reachedAt.IsZero() {
		reachedAt = bucket.EndsAt.Add(-time.Millisecond)
	}
	if reachedAt.After(s.now) {
		reachedAt = s.now
	}
	composite, err := codec.Encode(t.score, codec.Cut(models.TimestampOf(reachedAt)))
	if err != nil {
		return s.report.skip(t.line, err)
	}
	s.raises = append(s.raises, models.Raise{Bucket: bucket, Entry: models.Entry{User: t.user, Composite: composite}})
	s.users[t.user] = models.Profile{}
	if bucket.Cold(s.now) {
		s.cold[bucket] = true
		s.coldRaised++
	}
	if len(s.raises) == raiseBatch {
		return s.flush(ctx)
	}
	return nil
}

// flush writes the batch: the users first, so that nobody has steps without
// existing.
func (s *stepsImport) flush(ctx context.Context) error {
	if err := ctx.Err(); err != nil || len(s.raises) == 0 {
		return err
	}
	if err := s.app.Users.Create(ctx, s.users); err != nil {
		return err
	}
	// Hot days go where uploads go. Cold ones are archived at the end, and wait
	// for no queue.
	var hot, cold []models.Raise
	for _, r := range s.raises {
		if r.Bucket.Cold(s.now) {
			cold = append(cold, r)
		} else {
			hot = append(hot, r)
		}
	}
	if errs := s.app.Boards.Raise(ctx, cold); errs != nil {
		return notRaised(errs)
	}
	if errs := s.app.persist(ctx, hot); errs != nil {
		return notRaised(errs)
	}
	s.raised += len(s.raises)
	s.raises = s.raises[:0]
	clear(s.users)
	if s.coldRaised >= coldBatch {
		return s.archive(ctx)
	}
	return nil
}

// archive moves the cold days that were raised to where they belong, by the
// nightly path: what was raised stands in Redis as if it had come late.
func (s *stepsImport) archive(ctx context.Context) error {
	buckets := slices.SortedFunc(maps.Keys(s.cold), func(a, b *models.Bucket) int { return int(a.Day - b.Day) })
	for _, bucket := range buckets {
		_, err := s.app.Archive.Archive(ctx, bucket, func(int64) {})
		switch models.CodeOf(err) {
		case "":
			s.archived++
		case models.CodeBucketHot, models.CodeArchiveRunning:
			s.waiting++
		default:
			return fmt.Errorf("the totals are kept, and the next archival brings them to where they are read: %w", err)
		}
	}
	clear(s.cold)
	s.coldRaised = 0
	return nil
}

// notRaised sums up what became of a batch: its updates share a few commands,
// so their errors are a few, each repeated thousands of times.
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

type userDay struct {
	user models.UserID
	date models.Date
}

// dayTotal adds up the hours of a user's day.
type dayTotal struct {
	score int64
	// rose is the end of the last hour with steps, first that of the first
	// hour with a row: a day of 0 was reached then.
	rose, first time.Time
	line        int
}

// hourly reads lines Id,ActivityHour,StepTotal. Hours come in any order, so
// the days of the whole file are kept until its end: about 150 bytes for each
// user and day.
type hourly struct {
	imp  *stepsImport
	days map[userDay]*dayTotal
}

func (h *hourly) read(ctx context.Context, fields []string, line int) error {
	user, err := models.ParseUserID(strings.TrimSpace(fields[0]))
	if err != nil {
		return h.imp.report.skip(line, fmt.Errorf("%q: %w", fields[0], err))
	}
	start, err := parseHour(fields[1], h.imp.board.Zone())
	if err != nil {
		return h.imp.report.skip(line, err)
	}
	steps, err := parseSteps(fields[2])
	if err != nil {
		return h.imp.report.skip(line, err)
	}
	bucket, err := h.imp.bucket(ctx, models.DateOf(start), line)
	if bucket == nil {
		return err
	}
	end := start.Add(time.Hour)
	key := userDay{user, models.DateOf(start)}
	day := h.days[key]
	if day == nil {
		day = &dayTotal{first: end}
		h.days[key] = day
	}
	day.score += steps
	day.line = line
	if end.Before(day.first) {
		day.first = end
	}
	if steps > 0 && end.After(day.rose) {
		day.rose = end
	}
	return nil
}

// parseHour reads ActivityHour: an hour's start on the wall clock of a zone.
func parseHour(field string, zone *time.Location) (time.Time, error) {
	start, err := time.ParseInLocation("2006-1-2 15:04", strings.TrimSpace(field), zone)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is not an hour such as 2016-4-12 13:00", field)
	}
	return start, nil
}

// finish raises the days in the order of their lines, so that reports come in
// that order too.
func (h *hourly) finish(ctx context.Context) error {
	totals := make([]total, 0, len(h.days))
	for key, day := range h.days {
		reachedAt := day.rose
		if day.score == 0 {
			reachedAt = day.first
		}
		totals = append(totals, total{user: key.user, date: key.date, score: day.score, reachedAt: reachedAt, line: day.line})
	}
	slices.SortFunc(totals, func(a, b total) int { return a.line - b.line })
	for _, t := range totals {
		if err := h.imp.raise(ctx, t); err != nil {
			return err
		}
	}
	return nil
}
