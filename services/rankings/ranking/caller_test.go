package ranking_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stepboard/models"
	"stepboard/services/rankings/ranking"
)

// response is the result of one call.
type response struct {
	call   string
	source models.Source // empty if the call returns none
	// text is the whole result but the source.
	text string
	next *string
}

// caller makes every call that a day has.
type caller struct {
	ranking *ranking.Service
	day     models.Date
	// last is the highest id of a user with a score.
	last models.RowID
	// after is called after each call.
	after func()
}

func (f *fixture) caller(day models.Date) caller {
	return caller{ranking: f.ranking, day: day, last: f.userCount(), after: func() {}}
}

func (c caller) query(viewer models.RowID, limit int, cursor string) ranking.Query {
	return ranking.Query{Board: "steps", Date: &c.day, Viewer: id(viewer), Limit: limit, Cursor: cursor}
}

func (c caller) ranked(call string, r *models.Ranking, err error) (response, error) {
	if err != nil {
		return response{}, fmt.Errorf("%s: %w", call, err)
	}
	whole := *r
	whole.Source = ""
	return response{call, r.Source, string(whole.AppendJSON(nil)), r.NextCursor}, nil
}

func (c caller) friends(ctx context.Context, viewer models.RowID, cursor string) (response, error) {
	r, err := c.ranking.Friends(ctx, c.query(viewer, 40, cursor))
	return c.ranked(fmt.Sprintf("friends of %v", viewer), r, err)
}

// span adds up the days from one to another.
func (c caller) span(ctx context.Context, viewer models.RowID, from, to models.Date, cursor string) (response, error) {
	q := c.query(viewer, 40, cursor)
	q.Date, q.Span = nil, &ranking.Span{From: from, To: &to}
	r, err := c.ranking.Friends(ctx, q)
	return c.ranked(fmt.Sprintf("span of %v", viewer), r, err)
}

// threeDays adds up the day, the one before and the one after it.
func (c caller) threeDays(ctx context.Context, viewer models.RowID, cursor string) (response, error) {
	res, err := c.span(ctx, viewer, c.day-1, c.day+1, cursor)
	res.source = ""
	return res, err
}

// group ranks a group with the same people as friends.
func (c caller) group(ctx context.Context, viewer models.RowID, cursor string) (response, error) {
	r, err := c.ranking.Group(ctx, c.query(viewer, 40, cursor), circleOf(viewer))
	return c.ranked(fmt.Sprintf("group of %v", viewer), r, err)
}

func (c caller) top(ctx context.Context, viewer models.RowID, cursor string) (response, error) {
	r, err := c.ranking.Top(ctx, c.query(viewer, int(c.last)/6, cursor))
	return c.ranked(fmt.Sprintf("top for %v", viewer), r, err)
}

func (c caller) around(ctx context.Context, viewer models.RowID) (response, error) {
	r, err := c.ranking.Around(ctx, c.query(viewer, 0, ""), 5)
	return c.ranked(fmt.Sprintf("around %v", viewer), r, err)
}

func (c caller) me(ctx context.Context, viewer models.RowID) (response, error) {
	s, err := c.ranking.Me(ctx, c.query(viewer, 0, ""))
	if err != nil {
		return response{}, fmt.Errorf("me of %v: %w", viewer, err)
	}
	text, err := json.Marshal(s)
	return response{call: fmt.Sprintf("me of %v", viewer), text: string(text)}, err
}

// history reads the day, the one before and the one after it.
func (c caller) history(ctx context.Context, user models.RowID) (response, error) {
	from, to := c.day-1, c.day+1
	h, err := c.ranking.History(ctx, ranking.HistoryQuery{Board: "steps", Viewer: id(scorer), User: id(user), From: &from, To: &to})
	if err != nil {
		return response{}, fmt.Errorf("history of %v: %w", user, err)
	}
	res := response{call: fmt.Sprintf("history of %v", user)}
	for i, d := range h.Days {
		if d.Date == c.day {
			res.source, h.Days[i].Source = d.Source, ""
		}
	}
	res.text = fmt.Sprintf("%+v", *h)
	return res, nil
}

// callAll makes every call, and reads lists page by page.
func (c caller) callAll(ctx context.Context) ([]response, error) {
	var all []response
	var failed []error
	one := func(res response, err error) *string {
		all, failed = append(all, res), append(failed, err)
		c.after()
		return res.next
	}
	for _, list := range []func(cursor string) (response, error){
		func(cursor string) (response, error) { return c.friends(ctx, scorer, cursor) },
		func(cursor string) (response, error) { return c.friends(ctx, nonScorer, cursor) },
		func(cursor string) (response, error) { return c.span(ctx, scorer, c.day, c.day, cursor) },
		func(cursor string) (response, error) { return c.threeDays(ctx, scorer, cursor) },
		func(cursor string) (response, error) { return c.group(ctx, scorer, cursor) },
		func(cursor string) (response, error) { return c.group(ctx, nonScorer, cursor) },
		func(cursor string) (response, error) { return c.top(ctx, scorer, cursor) },
		func(cursor string) (response, error) { return c.top(ctx, 0, cursor) },
	} {
		for next := new(string); next != nil; {
			next = one(list(*next))
		}
	}
	for _, user := range []models.RowID{scorer, nonScorer, 1, c.last} {
		one(c.around(ctx, user))
		one(c.me(ctx, user))
	}
	for _, user := range []models.RowID{scorer, 1, 10} {
		one(c.history(ctx, user))
	}
	return all, errors.Join(failed...)
}

// checkSame compares responses with those before the archival, call by call.
// source is the store that they must come from; empty for either.
func checkSame(t testing.TB, when string, want, got []response, source models.Source) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d responses, want %d", when, len(got), len(want))
		return
	}
	for i, g := range got {
		if g.text != want[i].text {
			t.Errorf("%s: %s (-before +now)\n%s", when, g.call, cmp.Diff(want[i].text, g.text))
		}
		if (g.source == "") != (want[i].source == "") || (g.source != "" && source != "" && g.source != source) {
			t.Errorf("%s: %s comes from %q, want %q", when, g.call, g.source, source)
		}
	}
}

func withoutHistory(all []response, err error) ([]response, error) {
	return slices.DeleteFunc(all, func(r response) bool { return strings.HasPrefix(r.call, "history") }), err
}
