package simulation_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"stepboard/models"
)

var people = []models.UserID{"ann", "ben", "cho", "dee", "eve"}

// value is a score and when it was reached.
type value struct {
	score int64
	at    models.Timestamp
}

// better reports whether v ranks before other.
func (v value) better(other value) bool {
	return v.score > other.score || v.score == other.score && v.at < other.at
}

func (v *value) String() string {
	if v == nil {
		return "no score"
	}
	return fmt.Sprintf("%d at %s", v.score, v.at.Time().Format("01-02T15:04:05.000"))
}

// cell holds the model's facts about one user's score on one day.
type cell struct {
	// sure is the best value that the board must have; nil for none.
	sure *value
	// sent are all values that were ever sent, refused ones included: each may be on the
	// board.
	sent []value
	// acknowledged is the best value that was ever acknowledged; nil for none.
	acknowledged *value
	// past are the values of sure that were replaced since Redis has forgotten something, and
	// when, the oldest first.
	past []past
}

// past is a value that was sure until a moment.
type past struct {
	value *value
	until time.Time
}

// asOf returns the cell with what was sure at a moment.
func (c *cell) asOf(moment time.Time) *cell {
	then := *c
	for _, p := range c.past {
		if !p.until.Before(moment) && c.sure != nil {
			then.sure = p.value
			break
		}
	}
	return &then
}

// allows reports whether a board may show v, or no score if v is nil.
func (c *cell) allows(v *value) bool {
	if v == nil || c.sure != nil && *v == *c.sure {
		return v != nil || c.sure == nil
	}
	return slices.Contains(c.sent, *v) && (c.sure == nil || v.better(*c.sure))
}

// raise notes that a board has a value from a moment on.
func (c *cell) raise(v value, now time.Time) {
	if c.sure == nil || v.better(*c.sure) {
		c.past = append(c.past, past{c.sure, now})
		c.sure = &v
	}
}

// gift is an increment.
type gift struct {
	id    string
	user  models.UserID
	delta int64
	// counted says that it was acknowledged, applied that an answer was that it counts now,
	// refused that it never counts.
	counted, applied, refused bool
	// gone says that the user was erased since, so that it counts for nobody if it was counted.
	gone bool
}

// model holds what must be true of the service, from the calls that were made and what the
// database has.
type model struct {
	eventStart, eventEnd time.Time
	cells                map[models.UserID]map[models.Date]*cell
	gifts                []*gift
	// shown holds the least that the event's board must show.
	shown map[models.UserID]int64
	// facts are friendships, choices, memberships and likes.
	facts map[string]bool
	// changedAt says when each fact changed last, and setsRenewed when oldSets became false.
	changedAt   map[string]time.Time
	setsRenewed time.Time
	// requests are the friend requests that are shown to their recipients, likes those that were
	// ever given, and outcomes says how often each outcome has happened, results apart.
	requests, likes map[string]bool
	outcomes        map[string]int
	// dropped says how many outcomes may never be received, because somebody in them was erased
	// before they were.
	dropped  map[string]int
	erasures []*erasure
	// kept are facts about users who were erased that must hold again once their ids have returned,
	// and perhaps those that may.
	kept, perhaps map[string]bool
	// archived are the days that are archived.
	archived map[models.Date]bool
	// corrections are those in the database, and knownBy says which replicas know their
	// present state: by name and id.
	corrections []models.Correction
	knownBy     map[string]bool
	// lossy says that the boards' Redis has forgotten something that was not replayed yet;
	// oldSets that it may have brought back lists of friends that have changed since.
	lossy, oldSets bool
	// started is the first day of the run.
	started models.Date
}

func newModel(now time.Time) *model {
	m := &model{
		eventStart: now.Add(-time.Minute).Truncate(time.Minute), eventEnd: now.Add(30 * time.Hour).Truncate(time.Minute),
		cells: make(map[models.UserID]map[models.Date]*cell), shown: make(map[models.UserID]int64),
		facts: make(map[string]bool), changedAt: make(map[string]time.Time), requests: make(map[string]bool),
		likes: make(map[string]bool), outcomes: make(map[string]int), dropped: make(map[string]int),
		kept: make(map[string]bool), perhaps: make(map[string]bool),
		archived: make(map[models.Date]bool), knownBy: make(map[string]bool),
		started: dayOf(now) - 2,
	}
	for _, user := range people {
		m.cells[user] = make(map[models.Date]*cell)
	}
	return m
}

// dayOf returns the day of board steps at a moment.
func dayOf(now time.Time) models.Date { return models.DateOf(now.Add(8 * time.Hour).UTC()) }

func (m *model) cell(user models.UserID, day models.Date) *cell {
	c := m.cells[user][day]
	if c == nil {
		c = &cell{}
		m.cells[user][day] = c
	}
	return c
}

// skewLimit is how wrong a replica's clock may be.
const skewLimit = 2 * time.Second

// coldAt returns when a day turns cold.
func coldAt(day models.Date) time.Time { return day.UTC().AddDate(0, 0, 4).Add(-8 * time.Hour) }

// eachCell calls do for every score.
func (m *model) eachCell(do func(models.UserID, models.Date, *cell)) {
	for _, user := range people {
		for _, day := range slices.Sorted(maps.Keys(m.cells[user])) {
			do(user, day, m.cells[user][day])
		}
	}
}

// forgotten notes that the boards' Redis may lack anything that it had.
func (m *model) forgotten() {
	m.eachCell(func(_ models.UserID, day models.Date, c *cell) {
		if !m.archived[day] {
			c.sure, c.past = nil, nil
		}
	})
	clear(m.shown)
	m.lossy = true
}

// applied notes that the boards have everything that was acknowledged. Updates that are applied
// when their day is cold are late: they show when the archive has merged them.
func (m *model) applied(now time.Time) {
	if m.lossy {
		return
	}
	m.eachCell(func(_ models.UserID, day models.Date, c *cell) {
		if c.acknowledged != nil && !m.archived[day] && now.Before(coldAt(day).Add(-skewLimit)) {
			c.raise(*c.acknowledged, now)
		}
	})
}

// corrected returns the correction of a score that holds, and whether there ever was one.
func (m *model) corrected(user models.RowID, day models.Date) (held *models.Correction, ever bool) {
	for i := range m.corrections {
		c := &m.corrections[i]
		if c.User != user || c.Bucket != nil && c.Day != day || c.Bucket == nil && c.Day > day {
			continue
		}
		ever = true
		if c.LiftedAt == nil {
			held = c
		}
	}
	return held, ever
}

// correctedValue returns what a correction makes of a score; nil for none.
func correctedValue(c *models.Correction) *value {
	if c.Kind == models.CorrectionExclude {
		return nil
	}
	return &value{int64(*c.Points), models.TimestampOf(*c.ReachedAt)}
}

// notShown reports whether a user's scores are not shown to a viewer.
func (m *model) notShown(viewer, user models.UserID) bool {
	return user != viewer && (m.facts["hidden "+string(user)] ||
		m.facts[fact("muted", viewer, user)] || m.facts[fact("blocked", viewer, user)] ||
		m.facts[fact("hidden_from", user, viewer)] || m.facts[fact("blocked", user, viewer)])
}

// circle returns the people among whom a viewer is ranked: friends, or the members of a group.
func (m *model) circle(viewer models.UserID, group string) map[models.UserID]bool {
	circle := map[models.UserID]bool{viewer: true}
	for user := range m.everybody(viewer, group) {
		if !m.notShown(viewer, user) {
			circle[user] = true
		}
	}
	return circle
}

// everybody returns a viewer's friends, or the other members of a group, also those who are not shown
// to the viewer, but nobody whom the viewer has muted or blocked.
func (m *model) everybody(viewer models.UserID, group string) map[models.UserID]bool {
	all := make(map[models.UserID]bool)
	for _, user := range people {
		in := m.facts[fact("friends", viewer, user)]
		if group != "" {
			in = m.facts["member "+group+" "+string(user)]
		}
		if in && user != viewer && !m.facts[fact("muted", viewer, user)] && !m.facts[fact("blocked", viewer, user)] {
			all[user] = true
		}
	}
	return all
}

// fact returns the text of a fact about two people.
func fact(kind string, a, b models.UserID) string { return kind + " " + string(a) + " " + string(b) }

// counted returns the sum of a user's increments that count for sure, and of those that may.
func (m *model) counted(user models.UserID) (sure, maybe int64) {
	for _, g := range m.gifts {
		switch {
		case g.user != user || g.refused || g.gone && g.counted:
		case g.counted:
			sure += g.delta
		default:
			maybe += g.delta
		}
	}
	return sure, sure + maybe
}
