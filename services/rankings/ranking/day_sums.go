package ranking

import (
	"context"
	"errors"

	"stepboard/models"
)

// DaySums holds sums over the last maxHistoryDays of a user.
type DaySums struct {
	// Week and Month are the sums of the days since Monday and since the first of the
	// month, today included.
	Week, Month int64
	// Average is the average score of the finished days that have one, rounded to a whole
	// number; nil without such days.
	Average *int64
	// Best is the day with the highest score, the earliest one of several; nil without
	// scores.
	Best *Day
	// CurrentStreak is the number of days in a row, up to now, with a score of the goal or
	// more, and LongestStreak the largest such number. An unfinished day below the goal
	// neither counts nor ends a streak.
	CurrentStreak, LongestStreak int
}

// DaySums adds up the days of a user up to today at the query's offset; From and To of the
// query are not used. Errors and cost are those of History; CodeBoardKind also if the board ranks
// the lowest score first, CodeUnavailable also if Redis does not answer.
func (s *Service) DaySums(ctx context.Context, q HistoryQuery, goal int64) (DaySums, error) {
	b, err := s.dayBoard(q.Board)
	if err == nil {
		err = b.RequireHigh("sums of several days")
	}
	if err != nil {
		return DaySums{}, err
	}
	now := s.o.Clock()
	current, err := s.o.Catalog.Buckets.Current(b, now, q.Offset)
	if err != nil {
		return DaySums{}, err
	}
	today := current.Day
	from := today - maxHistoryDays + 1
	q.From, q.To = &from, &today
	h, err := s.History(ctx, q)
	if err != nil {
		return DaySums{}, err
	}
	if h.Partial {
		return DaySums{}, models.Unavailable("add up days", errors.New("the days in Redis could not be read"))
	}
	finished := today
	for {
		bucket, err := s.o.Catalog.Buckets.Resolve(b, &finished, now, models.UTCOffset{})
		if err != nil {
			return DaySums{}, err
		}
		if !now.Before(bucket.EndsAt) {
			break
		}
		finished--
	}
	return SumDays(h.Days, today, finished, goal), nil
}

// SumDays adds up days, which are newest first and end with today. finished is the last day
// that is over everywhere.
func SumDays(days []Day, today, finished models.Date, goal int64) DaySums {
	var (
		sums         DaySums
		total, count int64
	)
	monday := today - models.Date((today.UTC().Weekday()+6)%7)
	first := today - models.Date(today.UTC().Day()-1)
	for i, d := range days {
		if d.Date >= monday {
			sums.Week += d.Score
		}
		if d.Date >= first {
			sums.Month += d.Score
		}
		if d.Date <= finished {
			total, count = total+d.Score, count+1
		}
		if sums.Best == nil || d.Score >= sums.Best.Score {
			sums.Best = &days[i]
		}
	}
	if count > 0 {
		average := (total + count/2) / count
		sums.Average = &average
	}
	sums.CurrentStreak, sums.LongestStreak = streaks(days, finished, goal)
	return sums
}

// streaks returns the current and the longest number of days in a row with a score of the
// goal or more. The days are newest first.
func streaks(days []Day, finished models.Date, goal int64) (current, longest int) {
	run, running := 0, true // running: the streak goes on until now
	next := finished        // the finished day that continues the streak
	for _, d := range days {
		switch {
		case d.Score < goal:
			continue
		case d.Date > finished:
		case d.Date < next:
			run, running = 0, false
			next = d.Date - 1
		default:
			next = d.Date - 1
		}
		run++
		if running {
			current = run
		}
		longest = max(longest, run)
	}
	return current, longest
}
