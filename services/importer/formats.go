package importer

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"stepboard/models"
)

// The headers of step files, as NormalizeHeader returns them.
const (
	dailyHeader  = "user_id,date,steps"
	HourlyHeader = "id,activityhour,steptotal"
)

// maxSteps keeps the sum of a day's hours far from overflow.
const maxSteps = 1 << 40

// NormalizeHeader returns a header in lower case, without spaces and quotes.
func NormalizeHeader(header string) string {
	return strings.ToLower(strings.NewReplacer(" ", "", `"`, "").Replace(header))
}

// daily reads lines user_id,date,steps. The file does not say when a total was
// reached, so it counts as reached at the day's end.
type daily struct{ *stepsImport }

func (d daily) read(ctx context.Context, fields []string, line int) error {
	user, err := parseUser(fields[0])
	if err != nil {
		return d.report.BadLine(line, err)
	}
	date, err := models.ParseDate(strings.TrimSpace(fields[1]))
	if err != nil {
		return d.report.BadLine(line, fmt.Errorf("%q: %w", fields[1], err))
	}
	steps, err := parseSteps(fields[2])
	if err != nil {
		return d.report.BadLine(line, err)
	}
	return d.raise(ctx, total{user: user, date: date, score: steps, line: line, lines: 1})
}

func (daily) finish(context.Context) error { return nil }

// hourly reads lines Id,ActivityHour,StepTotal. The hours are those of the board's zone;
// if days are each user's own, the dates are the users', and the hours are taken for
// those of UTC, because the file does not have their offset. Hours come in any order, so the
// days of the whole file are kept until its end: about 150 bytes for each user
// and day.
type hourly struct {
	*stepsImport
	days map[userDay]*dayTotal
}

type userDay struct {
	user models.UserID
	date models.Date
}

// dayTotal adds up the hours of a user's day.
type dayTotal struct {
	score int64
	// rose is the end of the last hour with steps. first is the end of the first
	// hour in the file, when a total of 0 was reached.
	rose, first time.Time
	line, lines int // the last one of the day, and how many it has
}

func (h *hourly) read(ctx context.Context, fields []string, line int) error {
	user, start, steps, err := ParseHour(fields, h.board.Zone())
	if err != nil {
		return h.report.BadLine(line, err)
	}
	key := userDay{user, models.DateOf(start)}
	bucket, err := h.bucket(ctx, key.date, line)
	if bucket == nil {
		return err
	}
	end := start.Add(time.Hour)
	day := h.days[key]
	if day == nil {
		day = &dayTotal{first: end}
		h.days[key] = day
	}
	day.score += steps
	day.line = line
	day.lines++
	if end.Before(day.first) {
		day.first = end
	}
	if steps > 0 && end.After(day.rose) {
		day.rose = end
	}
	return nil
}

// finish raises the days in the order of their lines, so that bad lines are
// reported in that order too.
func (h *hourly) finish(ctx context.Context) error {
	totals := make([]total, 0, len(h.days))
	for key, day := range h.days {
		reachedAt := day.rose
		if day.score == 0 {
			reachedAt = day.first
		}
		totals = append(totals, total{
			user: key.user, date: key.date, score: day.score, reachedAt: reachedAt, line: day.line, lines: day.lines,
		})
	}
	slices.SortFunc(totals, func(a, b total) int { return a.line - b.line })
	for _, t := range totals {
		if err := h.raise(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// ParseHour reads the three fields of an hourly line: a user, the start of an
// hour on the wall clock of a zone, and the steps of that hour.
func ParseHour(fields []string, zone *time.Location) (user models.UserID, start time.Time, steps int64, err error) {
	if user, err = parseUser(fields[0]); err != nil {
		return "", time.Time{}, 0, err
	}
	start, err = time.ParseInLocation("2006-1-2 15:04", strings.TrimSpace(fields[1]), zone)
	if err != nil {
		return "", time.Time{}, 0, fmt.Errorf("%q is not an hour such as 2016-4-12 13:00", fields[1])
	}
	if steps, err = parseSteps(fields[2]); err != nil {
		return "", time.Time{}, 0, err
	}
	return user, start, steps, nil
}

func parseUser(field string) (models.UserID, error) {
	user, err := models.ParseUserID(strings.TrimSpace(field))
	if err != nil {
		return "", fmt.Errorf("%q: %w", field, err)
	}
	return user, nil
}

func parseSteps(field string) (int64, error) {
	steps, err := strconv.ParseInt(strings.TrimSpace(field), 10, 64)
	if err != nil || steps < 0 || steps > maxSteps {
		return 0, fmt.Errorf("%q is not a whole number of steps from 0 to %d", field, maxSteps)
	}
	return steps, nil
}
