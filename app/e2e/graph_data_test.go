package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stepboard/internal/testenv"
)

// readData returns the text of a file of real data.
func readData(t testing.TB, name string) string {
	t.Helper()
	return string(testenv.Must(os.ReadFile(testenv.RealData(t, name))))
}

// graph holds each user's friends.
type graph map[int][]int

func readGraph(t testing.TB) graph {
	t.Helper()
	g := make(graph)
	for line := range strings.Lines(readData(t, "ego-facebook-edges.txt")) {
		var a, b int
		if _, err := fmt.Sscan(line, &a, &b); err != nil {
			t.Fatal(err)
		}
		g[a+1] = append(g[a+1], b+1)
		g[b+1] = append(g[b+1], a+1)
	}
	return g
}

// walker is one person of the step counts: the steps in each hour.
type walker map[time.Time]int

// readWalkers reads the step counts, sorted by the persons' ids.
func readWalkers(t testing.TB, zone *time.Location) []walker {
	t.Helper()
	byID := make(map[int]walker)
	first := true
	for line := range strings.Lines(readData(t, "fitbit-hourly-steps.csv")) {
		if first {
			first = false
			continue
		}
		fields := strings.Split(strings.TrimSpace(line), ",")
		id, err1 := strconv.Atoi(fields[0])
		hour, err2 := time.ParseInLocation("2006-1-2 15:04", fields[1], zone)
		steps, err3 := strconv.Atoi(fields[2])
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatal(err)
		}
		if byID[id] == nil {
			byID[id] = make(walker)
		}
		byID[id][hour] += steps
	}
	var ids []int
	for id := range byID {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	walkers := make([]walker, len(ids))
	for i, id := range ids {
		walkers[i] = byID[id]
	}
	return walkers
}

// dayScore is a walker's total of a day and when it was reached.
type dayScore struct {
	score     int
	reachedAt time.Time
}

// day adds up a walker's day; ok is false if the day has no row.
func (w walker) day(start, end time.Time) (d dayScore, ok bool) {
	var first time.Time
	for hour, steps := range w {
		if hour.Before(start) || !hour.Before(end) {
			continue
		}
		ok = true
		d.score += steps
		over := hour.Add(time.Hour)
		if steps > 0 && over.After(d.reachedAt) {
			d.reachedAt = over
		}
		if first.IsZero() || over.Before(first) {
			first = over
		}
	}
	if d.score == 0 {
		d.reachedAt = first
	}
	return d, ok
}

// ranked is a line of the brute-force ranking.
type ranked struct {
	user int
	dayScore
}

// rowTexts reads the row id of every user, which decides between equal scores.
func rowTexts(t testing.TB, dsn string) map[int]string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := conn.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	rows, err := conn.Query(t.Context(), `SELECT CAST(external_id AS integer), CAST(user_id AS text) FROM users`)
	if err != nil {
		t.Fatal(err)
	}
	texts := make(map[int]string)
	var user int
	var text string
	if _, err := pgx.ForEachRow(rows, []any{&user, &text}, func() error { texts[user] = text; return nil }); err != nil {
		t.Fatal(err)
	}
	return texts
}

// bruteForce ranks a user and friends in the simplest way.
func bruteForce(user int, friends []int, scores map[int]dayScore, rows map[int]string) []ranked {
	var list []ranked
	for _, u := range append([]int{user}, friends...) {
		if d, ok := scores[u]; ok {
			list = append(list, ranked{u, d})
		}
	}
	slices.SortFunc(list, func(a, b ranked) int {
		if a.score != b.score {
			return b.score - a.score
		}
		if !a.reachedAt.Equal(b.reachedAt) {
			return a.reachedAt.Compare(b.reachedAt)
		}
		return strings.Compare(rows[b.user], rows[a.user])
	})
	return list
}
