package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"time"

	"stepboard/models"
	"stepboard/services/operations/importer"
	"stepboard/services/people/friends"
)

// maxDays bounds the days of a file of steps, and so the memory they take.
const maxDays = 366

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

// atLine adds the number of a line to its error. Unlike an import, which skips bad lines, a
// demo stops at the first one.
func atLine(number int, err error) error { return fmt.Errorf("line %d: %w", number, err) }

// readGraph reads friendships between users numbered from 0.
func (p *people) readGraph(ctx context.Context, in io.Reader) error {
	numbers := make(map[int]bool)
	edges := newEdgeSet()
	err := importer.EachEdge(ctx, in, importer.EdgesOptions{}, func(line int, e friends.Edge, bad error) error {
		if errors.Is(bad, importer.ErrOneWay) {
			return nil
		}
		if bad != nil && !errors.Is(bad, importer.ErrSelf) { // somebody without friends lives here, too
			return atLine(line, bad)
		}
		a, err := personNumber(e.A)
		if err != nil {
			return atLine(line, err)
		}
		b, err := personNumber(e.B)
		if err != nil {
			return atLine(line, err)
		}
		edges.add(idOf(a), idOf(b))
		numbers[a], numbers[b] = true, true
		if len(numbers) > maxPeople {
			return fmt.Errorf("more than %d people are too many for a demo", maxPeople)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(edges.list) == 0 {
		return errors.New("the file has no friendships")
	}
	p.edges = edges.list
	for _, number := range slices.Sorted(maps.Keys(numbers)) {
		p.ids = append(p.ids, idOf(number))
	}
	return nil
}

// personNumber returns the number, from 1, of a person whom a graph numbers from 0.
func personNumber(text models.UserID) (int, error) {
	n, err := strconv.ParseUint(string(text), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is not a user number", text)
	}
	return int(n) + 1, nil
}

// hourOfSteps is one row of a file of steps.
type hourOfSteps struct {
	start time.Time
	steps int64
}

// readHours reads a file of steps with hours. Each user of the file, by
// id, becomes a walking pattern.
func (p *people) readHours(ctx context.Context, in io.Reader) error {
	byUser := make(map[models.UserID][]hourOfSteps)
	err := importer.EachSteps(ctx, in, importer.StepsOptions{}, func(l importer.StepsLine, bad error) error {
		if errors.Is(bad, importer.ErrNoSteps) {
			return nil
		}
		if bad != nil {
			return atLine(l.Number, bad)
		}
		if !l.Hourly {
			return errors.New("the file has days: a demo needs hours, in the columns Id, ActivityHour and StepTotal")
		}
		// A day of a demo has 24 hours, as every day has in UTC.
		start := l.Date.UTC().Add(time.Duration(l.Hour) * time.Hour)
		byUser[l.User] = append(byUser[l.User], hourOfSteps{start, l.Steps})
		return nil
	})
	if err != nil {
		return err
	}
	if len(byUser) == 0 {
		return errors.New("the file has no steps")
	}
	for _, user := range slices.Sorted(maps.Keys(byUser)) {
		hours, err := wholeDays(byUser[user])
		if err != nil {
			return fmt.Errorf("user %v: %w", user, err)
		}
		p.addPattern(hours)
	}
	return nil
}

// wholeDays returns the steps of each hour from the first row's midnight to the
// end of the last row's day. Rows may come in any order; hours without a row
// have no steps.
func wholeDays(rows []hourOfSteps) ([]float64, error) {
	byTime := func(a, b hourOfSteps) int { return a.start.Compare(b.start) }
	first, last := slices.MinFunc(rows, byTime).start, slices.MaxFunc(rows, byTime).start
	const day = 24 * time.Hour
	midnight := first.Truncate(day)
	days := int(last.Sub(midnight)/day) + 1
	if days > maxDays {
		return nil, fmt.Errorf("%d days lie between the first hour and the last: a demo takes %d", days, maxDays)
	}
	hours := make([]float64, 24*days)
	for _, row := range rows {
		hours[row.start.Sub(midnight)/time.Hour] += float64(row.steps)
	}
	return hours, nil
}
