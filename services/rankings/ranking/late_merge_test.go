package ranking_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stepboard/models"
	"stepboard/services/rankings/ranking"
)

// dayScore is a user's score on a day, and when it was reached.
type dayScore struct {
	points int64
	second int // after noon
}

// dayScores holds the score of each user.
type dayScores map[models.RowID]dayScore

// ranked sorts the users by brute force.
func (d dayScores) ranked() []models.RowID {
	var users []models.RowID
	for user := range d {
		users = append(users, user)
	}
	slices.SortFunc(users, func(a, b models.RowID) int {
		x, y := d[a], d[b]
		switch {
		case x.points != y.points:
			return int(y.points - x.points)
		case x.second != y.second:
			return x.second - y.second
		default:
			return strings.Compare(b.String(), a.String())
		}
	})
	return users
}

// lines returns rank, user and points of ranked users, the first of which has
// the given rank.
func (d dayScores) lines(users []models.RowID, firstRank int) []string {
	var out []string
	for i, user := range users {
		out = append(out, fmt.Sprintf("%d. %v %d", firstRank+i, user, d[user].points))
	}
	return out
}

// merge takes the better score of each user.
func (d dayScores) merge(late dayScores) {
	for user, s := range late {
		before, ok := d[user]
		if !ok || s.points > before.points || s.points == before.points && s.second < before.second {
			d[user] = s
		}
	}
}

// lateMerge is a day of 60 users, who are all friends of user 7. Late scores are
// merged after it was archived.
type lateMerge struct {
	*fixture

	day    models.Date
	bucket *models.Bucket
	scores dayScores // what the archive has
	lists  map[string]func(ranking.Query) (*models.Ranking, error)
}

func newLateMerge(t *testing.T, f *fixture) *lateMerge {
	t.Helper()
	m := &lateMerge{fixture: f, day: f.day(), scores: make(dayScores)}
	m.bucket = f.bucketOf(m.day)
	m.lists = map[string]func(ranking.Query) (*models.Ranking, error){
		"friends": func(q ranking.Query) (*models.Ranking, error) { return f.ranking.Friends(t.Context(), q) },
		"top":     func(q ranking.Query) (*models.Ranking, error) { return f.ranking.Top(t.Context(), q) },
	}
	var others []models.RowID
	for id := models.RowID(1); id <= 60; id++ {
		m.scores[id] = dayScore{int64(id % 6 * 100), int(id % 4)}
		if id != 7 {
			others = append(others, id)
		}
	}
	f.befriend(7, append(others, 61, 62)...)
	m.raiseAll(m.scores)
	f.makeDue(m.bucket)
	return m
}

func (m *lateMerge) raiseAll(scores dayScores) {
	m.t.Helper()
	var raises []models.Raise
	for user, s := range scores {
		raises = append(raises, m.raiseOf(m.bucket, user, s.points, s.second))
	}
	m.apply(raises...)
}

func (m *lateMerge) query(cursor string) ranking.Query {
	return ranking.Query{Board: "steps", Date: &m.day, Viewer: "7", Limit: 20, Cursor: cursor}
}

// checkList reads a list from a cursor to its end, and compares it with the
// ranked users from the given index on.
func (m *lateMerge) checkList(when, cursor, name string, users []models.RowID, from int) {
	m.t.Helper()
	q := m.query(cursor)
	var got []string
	for {
		page, err := m.lists[name](q)
		if err != nil {
			m.t.Fatal(err)
		}
		got = append(got, lines(page)...)
		if page.Total != int64(len(users)) || page.Me == nil || page.Me.Rank != int64(slices.Index(users, 7)+1) || page.Source != models.SourceArchive {
			m.t.Errorf("%s, %s: %+v, me %+v", when, name, page, page.Me)
		}
		if page.NextCursor == nil {
			break
		}
		q.Cursor = *page.NextCursor
	}
	if diff := cmp.Diff(m.scores.lines(users[from:], from+1), got); diff != "" {
		m.t.Errorf("%s, %s -want +got:\n%s", when, name, diff)
	}
}

// checkUsers compares the history and the summary of each user with the ranked
// users.
func (m *lateMerge) checkUsers(users []models.RowID) {
	m.t.Helper()
	ctx := m.t.Context()
	for i, user := range users {
		h, err := m.ranking.History(ctx, ranking.HistoryQuery{Board: "steps", Viewer: id(user), User: id(user), From: &m.day, To: &m.day})
		if err != nil || len(h.Days) != 1 || h.Days[0].Rank != int64(i+1) || h.Days[0].Total != int64(len(users)) || h.Days[0].Score != m.scores[user].points {
			m.t.Errorf("history of %v: %+v, %v, want rank %d of %d", user, h, err, i+1, len(users))
		}
		me, err := m.ranking.Me(ctx, ranking.Query{Board: "steps", Date: &m.day, Viewer: id(user)})
		if err != nil || *me.GlobalRank != int64(i+1) || me.GlobalTotal != int64(len(users)) {
			m.t.Errorf("me of %v: %+v, %v, want rank %d of %d", user, me, err, i+1, len(users))
		}
	}
}

// A late merge changes ranks. An older cursor still continues at its position.
func TestRanksAndCursorsAfterALateMerge(t *testing.T) {
	t.Parallel()
	eachStores(t, func(t *testing.T, f *fixture) {
		m := newLateMerge(t, f)
		cursors := make(map[string]string)
		for name, list := range m.lists {
			page, err := list(m.query(""))
			if err != nil || page.Source != models.SourceHot || len(page.Entries) != 20 {
				t.Fatalf("%s: %+v, %v", name, page, err)
			}
			cursors[name] = *page.NextCursor
		}
		before := m.scores.ranked()
		last := before[19] // of the first page
		at := m.scores[last]
		f.mustArchive(f.archive, m.bucket)
		for name := range m.lists {
			m.checkList("archived", "", name, before, 0)
			m.checkList("archived", cursors[name], name, before, 20)
		}

		late := dayScores{
			61:         {900, 1}, // new, ranked second
			62:         {50, 2},  // new, after the cursor
			before[59]: {901, 1}, // from the last rank to the first
			last:       {at.points, at.second + 1},
			before[25]: {at.points, at.second}, // equal to the cursor's entry
			before[30]: {at.points, 0},
			before[0]:  {1, 1}, // less than the archived score
		}
		m.raiseAll(late)
		for name := range m.lists {
			m.checkList("late, not merged yet", cursors[name], name, before, 20)
		}
		f.mustArchive(f.archive, m.bucket)
		m.scores.merge(late)
		after := m.scores.ranked()
		for name := range m.lists {
			m.checkList("merged", "", name, after, 0)
			// The cursor's position is that of its entry.
			m.checkList("merged", cursors[name], name, after, slices.Index(after, last)+1)
		}
		m.checkUsers(after)
	})
}
