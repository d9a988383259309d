package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"stepboard/models"
)

// maxDemoDays bounds the days of a file of steps, and with them the memory.
const maxDemoDays = 366

func readFile(ctx context.Context, path string, read func(context.Context, io.Reader) error) (err error) {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := read(ctx, file); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// eachEntry reads the lines that are not blank. Unlike an import, a demo has
// no use for a part of a file: the first bad line is an error.
func eachEntry(ctx context.Context, in io.Reader, do func(line string) error) error {
	return eachLine(ctx, in, func(number int, line string) error {
		if line == "" {
			return nil
		}
		if err := do(line); err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		return nil
	})
}

// readGraph reads friendships between users numbered from 0.
func (p *people) readGraph(ctx context.Context, in io.Reader) error {
	known := make(map[models.UserID]bool)
	befriend := p.befriender()
	err := eachEntry(ctx, in, func(line string) error {
		if line[0] == '#' {
			return nil
		}
		e, err := parseEdge(line, 1)
		if err != nil {
			return err
		}
		befriend(e.A, e.B)
		for _, id := range []models.UserID{e.A, e.B} {
			if !known[id] {
				known[id] = true
				p.ids = append(p.ids, id)
			}
		}
		if len(p.ids) > maxDemoUsers {
			return fmt.Errorf("more than %d people are too many for a demo", maxDemoUsers)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(p.edges) == 0 {
		return errors.New("there are no friendships in it")
	}
	slices.Sort(p.ids)
	return nil
}

// hourOfSteps is one row of a file of steps.
type hourOfSteps struct {
	start time.Time
	steps int64
}

// readHours reads Id,ActivityHour,StepTotal; the people of the file, by
// ascending id, become kinds of people.
func (p *people) readHours(ctx context.Context, in io.Reader) error {
	byID := make(map[models.UserID][]hourOfSteps)
	header := true
	err := eachEntry(ctx, in, func(line string) error {
		if header {
			header = false
			if columns(line) != hourlyColumns {
				return fmt.Errorf("%q is not Id,ActivityHour,StepTotal", line)
			}
			return nil
		}
		id, row, err := parseHourOfSteps(line)
		if err != nil {
			return err
		}
		byID[id] = append(byID[id], row)
		return nil
	})
	if err != nil {
		return err
	}
	if len(byID) == 0 {
		return errors.New("there are no steps in it")
	}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		hours, err := wholeDays(byID[id])
		if err != nil {
			return fmt.Errorf("user %v: %w", id, err)
		}
		p.addKind(hours)
	}
	return nil
}

func parseHourOfSteps(line string) (models.UserID, hourOfSteps, error) {
	fields := strings.Split(line, ",")
	if len(fields) != 3 {
		return 0, hourOfSteps{}, fmt.Errorf("%d fields instead of 3", len(fields))
	}
	id, err := models.ParseUserID(strings.TrimSpace(fields[0]))
	if err != nil {
		return 0, hourOfSteps{}, fmt.Errorf("%q: %w", fields[0], err)
	}
	// In UTC every day has 24 hours, as the days of a demo have.
	start, err := parseHour(fields[1], time.UTC)
	if err != nil {
		return 0, hourOfSteps{}, err
	}
	steps, err := parseSteps(fields[2])
	if err != nil {
		return 0, hourOfSteps{}, err
	}
	return id, hourOfSteps{start, steps}, nil
}

// wholeDays puts rows, in whatever order, into their hours from the first
// day's midnight to the last day's end. Hours without a row have no steps.
func wholeDays(rows []hourOfSteps) ([]float64, error) {
	byTime := func(a, b hourOfSteps) int { return a.start.Compare(b.start) }
	first, last := slices.MinFunc(rows, byTime).start, slices.MaxFunc(rows, byTime).start
	const day = 24 * time.Hour
	midnight := first.Truncate(day)
	days := int(last.Sub(midnight)/day) + 1
	if days > maxDemoDays {
		return nil, fmt.Errorf("%d days lie between the first hour and the last: a demo takes %d", days, maxDemoDays)
	}
	hours := make([]float64, 24*days)
	for _, row := range rows {
		hours[row.start.Sub(midnight)/time.Hour] += float64(row.steps)
	}
	return hours, nil
}
