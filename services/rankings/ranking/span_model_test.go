//go:build !race

package ranking_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/corrections"
	"stepboard/services/boards/score"
	"stepboard/services/rankings/ranking"
	"stepboard/services/servicetest"
)

// spanModel has everything that decides what spans show, kept in the plainest way.
type spanModel struct {
	*fixture

	random      *rand.Rand
	steps       *catalog.Board
	corrections *corrections.Service
	// services are those of two processes. The second one has not made the buckets.
	services []*ranking.Service
	members  []models.RowID // of the group

	days     map[models.Date]*modelDay
	since    map[[2]models.RowID]time.Time // in both directions
	hidden   map[models.RowID]bool
	muted    map[[2]models.RowID]bool // who has muted whom
	from     map[[2]models.RowID]bool // who hides from whom
	earliest models.Date
}

// modelDay is a day with scores.
type modelDay struct {
	bucket   *models.Bucket
	archived bool
	reported map[models.RowID]models.Composite
	// corrected has what corrections put on the board, 0 for excluded users.
	corrected map[models.RowID]models.Composite
	made      map[models.RowID]int64 // ids of corrections
}

// spanPeople is the number of people of the model.
const spanPeople models.RowID = 6

func newSpanModel(t *testing.T, env *testenv.Env, random *rand.Rand, shards int) *spanModel {
	t.Helper()
	m := &spanModel{
		fixture: newFixture(t, env, shards), random: random, days: make(map[models.Date]*modelDay),
		since: make(map[[2]models.RowID]time.Time), hidden: make(map[models.RowID]bool), muted: make(map[[2]models.RowID]bool),
		from: make(map[[2]models.RowID]bool),
	}
	m.steps = testenv.Must(m.catalog.Definitions.Board("steps"))
	m.corrections = corrections.New(corrections.Options{
		Store: corrections.NewStore(env.Gorm, env.Gorm, nil), Rules: m.rules, Catalog: m.catalog, Entries: m.boards, Archive: m.archive,
		Directory: m.users, Clock: env.Clock.Now, Log: env.Log,
	})
	other := catalog.New(catalog.NewStore(env.Gorm), env.Clock.Now, 3, env.Log)
	if err := other.Definitions.Define(t.Context(), env.Config.BoardDefinitions()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*catalog.Catalog{m.catalog, other} {
		o := m.options()
		o.Catalog, o.Corrections = c, m.corrections
		m.services = append(m.services, ranking.New(o))
	}
	m.regroup()
	m.earliest = m.day()
	var made []*models.Bucket // by the definition of the board: a local one has two days now
	m.must(env.Gorm.Table("bucket_states").Where("board = ?", "steps").Find(&made).Error)
	for _, b := range made {
		m.dayOf(b)
	}
	return m
}

// dayOf returns what the model knows of a bucket.
func (m *spanModel) dayOf(b *models.Bucket) *modelDay {
	if m.days[b.Day] == nil {
		m.days[b.Day] = &modelDay{
			bucket: b, reported: make(map[models.RowID]models.Composite),
			corrected: make(map[models.RowID]models.Composite), made: make(map[models.RowID]int64),
		}
	}
	return m.days[b.Day]
}

// person returns somebody.
func (m *spanModel) person() models.RowID {
	return 1 + models.RowID(m.random.Int64N(int64(spanPeople)))
}

// people returns some people, without repetition.
func (m *spanModel) people() []models.RowID {
	var some []models.RowID
	for id := models.RowID(1); id <= spanPeople; id++ {
		if m.random.IntN(2) == 0 {
			some = append(some, id)
		}
	}
	return some
}

func (m *spanModel) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// live makes changes on the day that the clock shows.
func (m *spanModel) live() {
	m.t.Helper()
	today := m.day()
	for range 5 {
		if date := today - models.Date(m.random.IntN(3)); date >= m.earliest && m.random.IntN(8) > 0 { // some days have no scores
			m.report(m.boards, date, m.person())
		}
	}
	switch m.random.IntN(6) {
	case 0:
		m.refriend()
	case 1:
		m.regroup()
	case 2:
		user := m.person()
		m.hidden[user] = !m.hidden[user]
		m.must(m.privacy.SetHidden(m.t.Context(), id(user), m.hidden[user]))
	case 3:
		pair, choices, kind := [2]models.RowID{m.person(), spanPeople}, m.muted, models.Muted
		if m.random.IntN(2) == 0 {
			pair[1], choices, kind = 1, m.from, models.HiddenFrom
		}
		if pair[0] != pair[1] {
			choices[pair] = true
			m.must(m.privacy.Choose(m.t.Context(), id(pair[0]), kind, id(pair[1])))
		}
	default:
		m.correct(today - models.Date(m.random.IntN(4)))
	}
	if m.random.IntN(3) == 0 {
		return // the archive is late
	}
	for _, b := range testenv.Must(m.archive.Due(m.t.Context())) {
		m.mustArchive(m.archive, b)
		if d := m.days[b.Day]; d != nil && d.bucket.Name == b.Name {
			d.archived = true
		}
	}
}

// report gives somebody a score, one of few, on a day that is not archived.
func (m *spanModel) report(boards board.Entries, date models.Date, user models.RowID) {
	m.t.Helper()
	bucket := testenv.Must(m.catalog.Buckets.ForImport(m.t.Context(), m.steps, date, m.env.Clock.Now()))
	d := m.dayOf(bucket)
	points := m.random.Int64N(4) * 100
	at := bucket.StartsAt.Add(time.Duration(m.random.IntN(4)) * 5 * time.Hour)
	composite := testenv.Must(score.Of(bucket).Encode(bucket.Points(points), models.TimestampOf(at)))
	for _, err := range boards.Raise(m.t.Context(), []models.Raise{{Bucket: bucket, Entry: models.Entry{User: user, Composite: composite}}}) {
		m.must(err)
	}
	d.reported[user] = max(d.reported[user], composite)
}

func (m *spanModel) refriend() {
	m.t.Helper()
	user := m.person()
	friends := slices.DeleteFunc(m.people(), func(id models.RowID) bool { return id == user })
	m.befriend(user, friends...)
	for other := models.RowID(1); other <= spanPeople; other++ {
		pair, back := [2]models.RowID{user, other}, [2]models.RowID{other, user}
		if !slices.Contains(friends, other) {
			delete(m.since, pair)
			delete(m.since, back)
		} else if m.since[pair].IsZero() {
			m.since[pair], m.since[back] = m.env.Clock.Now(), m.env.Clock.Now()
		}
	}
}

// regroup makes other people the members of the group; somebody always is.
func (m *spanModel) regroup() {
	m.t.Helper()
	m.members = append(slices.DeleteFunc(m.people(), func(id models.RowID) bool { return id == 1 }), 1)
	m.group("team", m.members...)
}

// correct makes or lifts a correction of somebody's score on a day that is not archived.
func (m *spanModel) correct(date models.Date) {
	m.t.Helper()
	user, d := m.person(), m.days[date]
	if d == nil || d.archived {
		return
	}
	if made, ok := d.made[user]; ok {
		_, err := m.corrections.Lift(m.t.Context(), corrections.Lifting{ID: made, Reason: "a test", Actor: "admin"})
		m.must(err)
		delete(d.made, user)
		delete(d.corrected, user)
		return
	}
	r := corrections.Request{Board: "steps", Date: &date, User: id(user), Kind: models.CorrectionExclude, Reason: "a test", Actor: "admin"}
	if points, _ := score.Of(d.bucket).Decode(d.reported[user]); d.reported[user] != 0 && m.random.IntN(2) == 0 {
		lower := m.random.Int64N(int64(points) + 1)
		r.Kind, r.Score = models.CorrectionSet, &lower
	}
	made, err := m.corrections.Create(m.t.Context(), r)
	m.must(err)
	d.made[user], d.corrected[user] = made.ID, 0
	if r.Score != nil {
		d.corrected[user] = testenv.Must(score.Of(d.bucket).Encode(*made.Points, models.TimestampOf(*made.ReachedAt)))
	}
	// A process that does not know the correction yet raises the board.
	m.report(servicetest.Entries(m.env, m.env.Clock.Now, nil), date, user)
}

// shown reports whether a viewer is shown somebody.
func (m *spanModel) shown(viewer, user models.RowID) bool {
	return viewer == user || !m.hidden[user] && !m.muted[[2]models.RowID{viewer, user}] && !m.from[[2]models.RowID{user, viewer}]
}

// sum returns the expected line of somebody, without rank; days is 0 if there is none.
func (m *spanModel) sum(viewer, user models.RowID, from, to models.Date, asFriend bool) (line models.RankedEntry) {
	line.User = id(user)
	var rises, all []models.Timestamp
	for date := from; date <= to; date++ {
		d := m.days[date]
		if d == nil {
			continue
		}
		composite := d.reported[user]
		if corrected, ok := d.corrected[user]; ok {
			composite = corrected
		}
		history := time.Duration(m.env.Config.Friends.HistoryDays) * 24 * time.Hour
		since := m.since[[2]models.RowID{viewer, user}]
		if composite == 0 || asFriend && viewer != user && d.archived && !since.Before(d.bucket.EndsAt.Add(history)) {
			continue
		}
		points, at := score.Of(d.bucket).Decode(composite)
		line.Score, line.Days, all = line.Score+d.bucket.Score(points), line.Days+1, append(all, at)
		if points > 0 {
			rises = append(rises, at)
		}
	}
	switch {
	case len(rises) > 0:
		line.ReachedAt = slices.Max(rises)
	case len(all) > 0:
		line.ReachedAt = slices.Min(all)
	}
	return line
}

// expected returns the lines of a span, and its source and whether it is final.
func (m *spanModel) expected(viewer models.RowID, circle []models.RowID, from, to models.Date, asFriend bool) *models.Ranking {
	r := &models.Ranking{Source: models.SourceHot, Final: true}
	for _, user := range circle {
		if line := m.sum(viewer, user, from, to, asFriend); m.shown(viewer, user) && line.Days > 0 {
			r.Entries = append(r.Entries, line)
		}
	}
	slices.SortFunc(r.Entries, func(a, b models.RankedEntry) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ReachedAt, b.ReachedAt), cmp.Compare(b.User, a.User))
	})
	for i := range r.Entries {
		r.Entries[i].Rank = int64(i + 1)
		if r.Entries[i].User == id(viewer) {
			r.Me = &r.Entries[i]
		}
	}
	hot, archived := false, false
	for date := from; date <= to; date++ {
		if d := m.days[date]; d != nil {
			hot, archived = hot || !d.archived, archived || d.archived
		}
		proposed, err := m.catalog.Buckets.Resolve(m.steps, &date, m.env.Clock.Now(), models.UTCOffset{})
		r.Final = r.Final && err == nil && proposed.Final(m.env.Clock.Now())
	}
	if archived && !hot {
		r.Source = models.SourceArchive
	}
	return r
}

// friendsOf returns the friends of somebody.
func (m *spanModel) friendsOf(user models.RowID) (friends []models.RowID) {
	for other := models.RowID(1); other <= spanPeople; other++ {
		if !m.since[[2]models.RowID{user, other}].IsZero() {
			friends = append(friends, other)
		}
	}
	return friends
}

// check compares a random span with what is expected, page by page.
func (m *spanModel) check() {
	m.t.Helper()
	from := m.day() - models.Date(m.random.IntN(40))
	to := from + models.Date(m.random.IntN(31))
	viewer := m.person()
	friends := append(m.friendsOf(viewer), viewer)
	q := ranking.Query{Board: "steps", Viewer: id(viewer), Limit: 1 + m.random.IntN(4), Span: &ranking.Span{From: from, To: &to}}
	service := m.services[m.random.IntN(len(m.services))]
	m.compare(fmt.Sprintf("friends of %v, %v to %v", viewer, from, to), m.expected(viewer, friends, from, to, true), q,
		func(q ranking.Query) (*models.Ranking, error) { return service.Friends(m.t.Context(), q) })
	if slices.Contains(m.members, viewer) {
		m.compare(fmt.Sprintf("group for %v, %v to %v", viewer, from, to), m.expected(viewer, m.members, from, to, false), q,
			func(q ranking.Query) (*models.Ranking, error) { return service.Group(m.t.Context(), q, "team") })
	}
}

// compare compares all pages of a span.
func (m *spanModel) compare(what string, want *models.Ranking, q ranking.Query, read func(ranking.Query) (*models.Ranking, error)) {
	m.t.Helper()
	bare := func(e models.RankedEntry) models.RankedEntry {
		e.Nickname, e.AvatarURL, e.Plain = "", models.URL{}, false
		return e
	}
	var got []models.RankedEntry
	for {
		r, err := read(q)
		m.must(err)
		if r.Source != want.Source || r.Final != want.Final || r.Total != int64(len(want.Entries)) || (r.Me == nil) != (want.Me == nil) ||
			r.Me != nil && bare(*r.Me) != *want.Me || r.Date != nil || *r.From != q.Span.From.String() || *r.To != q.Span.To.String() {
			m.t.Fatalf("%s: %s, want source %s, final %v, me %+v, %d entries",
				what, r.AppendJSON(nil), want.Source, want.Final, want.Me, len(want.Entries))
		}
		for _, e := range r.Entries {
			got = append(got, bare(e))
		}
		if r.NextCursor == nil {
			break
		}
		q.Cursor = *r.NextCursor
	}
	if !slices.Equal(got, want.Entries) {
		m.t.Fatalf("%s:\ngot  %+v\nwant %+v", what, got, want.Entries)
	}
}

// Spans are what a brute-force sum of the days shows: with corrections, people who are not
// shown, friendships that began later, days without scores, days that are archived late,
// days of 23 and 25 hours, and days that are each user's own.
func TestSpansAgreeWithBruteForce(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for i, tt := range []struct {
		zone        string
		historyDays int
		from        string
	}{
		{"Asia/Shanghai", 3, "2026-11-20"},
		{"America/New_York", 31, "2026-10-05"}, // clocks go back on November 1st
		{"Europe/Berlin", 0, "2026-03-05"},     // clocks go forward on March 29th
		{models.LocalZone, 8, "2026-11-20"},
	} {
		t.Run(tt.zone, func(t *testing.T) {
			t.Parallel()
			testenv.Each(t, func(t *testing.T, env *testenv.Env) {
				env.Config.Boards[0].TimeZone, env.Config.Friends.HistoryDays = tt.zone, tt.historyDays
				start := testenv.Must(models.ParseDate(tt.from)).UTC().Add(17 * time.Hour)
				env.Clock.Set(start)
				m := newSpanModel(t, env, rand.New(rand.NewPCG(seed, uint64(i))), 1+i%3)
				for day := range 45 {
					env.Clock.Set(start.AddDate(0, 0, day))
					m.live()
					for range 4 {
						m.check()
					}
					m.checkDay()
					m.checkDay()
				}
			})
		})
	}
}
