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
	befriend, numbers := p.befriender(), make(map[int]bool)
	err := importer.EachEdge(ctx, in, importer.EdgesOptions{}, func(line int, e friends.Edge, bad error) error {
		if errors.Is(bad, importer.ErrOneWay) {
			return nil
		}
		if bad != nil && !errors.Is(bad, importer.ErrSelf) { // somebody without friends lives here, too
			return atLine(line, bad)
		}
		var pair [2]models.UserID
		for i, text := range []models.UserID{e.A, e.B} {
			n, err := strconv.ParseUint(string(text), 10, 32)
			if err != nil {
				return atLine(line, fmt.Errorf("%q is not a user number", text))
			}
			number := int(n) + 1 // people are numbered from 1
			numbers[number], pair[i] = true, idOf(number)
		}
		befriend(pair[0], pair[1])
		if len(numbers) > maxPeople {
			return fmt.Errorf("more than %d people are too many for a demo", maxPeople)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(p.edges) == 0 {
		return errors.New("the file has no friendships")
	}
	for _, number := range slices.Sorted(maps.Keys(numbers)) {
		p.ids = append(p.ids, idOf(number))
	}
	return nil
}

// readHours reads a file of steps with hours. Each user of the file, by
// id, becomes a walking pattern.
func (p *people) readHours(ctx context.Context, in io.Reader) error {
	byUser := make(map[models.UserID]map[models.Date][24]float64)
	err := importer.EachSteps(ctx, in, importer.StepsOptions{}, func(l importer.StepsLine, bad error) error {
		switch {
		case errors.Is(bad, importer.ErrNoSteps):
			return nil
		case bad != nil:
			return atLine(l.Number, bad)
		case !l.Hourly:
			return errors.New("the file has days: a demo needs hours, in the columns Id, ActivityHour and StepTotal")
		case byUser[l.User] == nil:
			byUser[l.User] = make(map[models.Date][24]float64)
		}
		day := byUser[l.User][l.Date]
		day[l.Hour] += float64(l.Steps)
		byUser[l.User][l.Date] = day
		return nil
	})
	if err != nil {
		return err
	}
	if len(byUser) == 0 {
		return errors.New("the file has no steps")
	}
	for _, user := range slices.Sorted(maps.Keys(byUser)) {
		dates := slices.Sorted(maps.Keys(byUser[user]))
		first, last := dates[0], dates[len(dates)-1]
		if days := last - first + 1; days > maxDays {
			return fmt.Errorf("user %v: %d days lie between the first hour and the last: a demo takes %d", user, days, maxDays)
		}
		var hours []float64 // those without a row have no steps
		for date := first; date <= last; date++ {
			day := byUser[user][date]
			hours = append(hours, day[:]...)
		}
		p.addPattern(hours)
	}
	return nil
}
