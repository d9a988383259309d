//go:build !race

package ranking_test

import (
	"slices"
	"time"

	"stepboard/models"
	"stepboard/services/rankings/ranking"
)

// absent returns those of a circle of whom a viewer must be shown no score on a day, ascending.
func (m *spanModel) absent(viewer models.RowID, circle []models.RowID, date models.Date, asFriend bool) []models.UserID {
	var absent []models.UserID
	d := m.days[date]
	history := time.Duration(m.env.Config.Friends.HistoryDays) * 24 * time.Hour
	for _, user := range slices.Sorted(slices.Values(circle)) {
		pair := [2]models.RowID{viewer, user}
		late := asFriend && d != nil && d.archived && !m.since[pair].Before(d.bucket.EndsAt.Add(history))
		has := false
		if d != nil {
			composite, corrected := d.corrected[user]
			if !corrected {
				composite = d.reported[user]
			}
			has = composite != 0
		}
		if user != viewer && !m.muted[pair] && !late && (!has || !m.shown(viewer, user)) {
			absent = append(absent, id(user))
		}
	}
	return absent
}

// checkDay compares the absent people of a random day with what is expected, page by page, and with
// the ranking of that day: nobody is in both.
func (m *spanModel) checkDay() {
	m.t.Helper()
	date := m.day() - models.Date(m.random.IntN(40))
	viewer := m.person()
	q := ranking.Query{Board: "steps", Viewer: id(viewer), Limit: 1 + m.random.IntN(4), Date: &date}
	service := m.services[0] // the other process hears of an imported day seconds later
	ctx := m.t.Context()
	m.compareAbsent(q, m.absent(viewer, m.friendsOf(viewer), date, true),
		func(q ranking.Query) (*ranking.Absent, error) { return service.AbsentFriends(ctx, q) },
		func(q ranking.Query) (*models.Ranking, error) { return service.Friends(ctx, q) })
	members := func(q ranking.Query) (*ranking.Absent, error) { return service.AbsentMembers(ctx, q, "team") }
	if slices.Contains(m.members, viewer) {
		m.compareAbsent(q, m.absent(viewer, m.members, date, false), members,
			func(q ranking.Query) (*models.Ranking, error) { return service.Group(ctx, q, "team") })
	} else if _, err := members(q); models.CodeOf(err) != models.CodeNotFound {
		m.t.Fatalf("the absent members of another's group: %v", err)
	}
}

// compareAbsent compares all pages of a list of absent people.
func (m *spanModel) compareAbsent(
	q ranking.Query, want []models.UserID,
	read func(ranking.Query) (*ranking.Absent, error), rank func(ranking.Query) (*models.Ranking, error),
) {
	m.t.Helper()
	all := q
	all.Limit = int(spanPeople)
	ranked, err := rank(all)
	m.must(err)
	var got []models.UserID
	for {
		page, err := read(q)
		m.must(err)
		for _, p := range page.People {
			got = append(got, p.User)
		}
		last := page.NextCursor == nil
		if page.Total != len(want) || page.Board != "steps" || *page.Date != q.Date.String() ||
			len(page.People) > q.Limit || !last && len(page.People) < q.Limit {
			m.t.Fatalf("%v on %v: %+v, want %v in all", q.Viewer, q.Date, page, want)
		}
		if last {
			break
		}
		q.Cursor = *page.NextCursor
	}
	if !slices.Equal(got, want) {
		m.t.Fatalf("absent for %v on %v: %v, want %v", q.Viewer, q.Date, got, want)
	}
	for _, e := range ranked.Entries {
		if slices.Contains(got, e.User) {
			m.t.Fatalf("%v is ranked and absent for %v on %v", e.User, q.Viewer, q.Date)
		}
	}
}
