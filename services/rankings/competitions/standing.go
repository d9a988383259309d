package competitions

import (
	"cmp"
	"encoding/json"
	"math/bits"
	"slices"

	"stepboard/models"
)

// body is what everybody has in a competition, as it is stored: JSON.
type body struct {
	// Days is how many days of the competition have begun.
	Days  int64  `json:"days"`
	Teams []team `json:"teams"`
	Lines lines  `json:"lines"`
}

// team is a group in a competition. Group and ID are those of the group, which may have ended.
type team struct {
	Group models.GroupRow `json:"group"`
	ID    models.GroupID  `json:"id"`
	Name  string          `json:"name"`
	// Members is how many members the group has, also those who don't count.
	Members int64 `json:"members"`
}

// line is what a person has on the days on which they counted for a team.
type line struct {
	// User is 0 for a person who was erased after the standing became final.
	User  models.RowID
	Group models.GroupRow
	// Present reports that the person is in the team.
	Present bool
	// Counted is on how many days, that have begun, the person counted.
	Counted int64
	// Sum has the days with a score. Its Score is what is measured.
	models.Sum
}

// lines are stored as lists of numbers: there are up to 20,000.
type lines []line

// MarshalJSON implements json.Marshaler.
func (l lines) MarshalJSON() ([]byte, error) {
	rows := make([][7]int64, len(l))
	for i, one := range l {
		rows[i] = [7]int64{int64(one.User), int64(one.Group), 0, one.Counted, one.Score, one.Days, int64(one.ReachedAt)}
		if one.Present {
			rows[i][2] = 1
		}
	}
	return json.Marshal(rows)
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *lines) UnmarshalJSON(text []byte) error {
	var rows [][7]int64
	if err := json.Unmarshal(text, &rows); err != nil {
		return err
	}
	*l = make(lines, len(rows))
	for i, r := range rows {
		(*l)[i] = line{
			User: models.RowID(r[0]), Group: models.GroupRow(r[1]), Present: r[2] == 1, Counted: r[3],
			Sum: models.Sum{Score: r[4], Days: r[5], ReachedAt: models.Timestamp(r[6])},
		}
	}
	return nil
}

// hide takes out what people have who hide from everybody, as if they had no scores. They stay in their
// teams, as those do who have not walked: nobody can distinguish the two.
func (b *body) hide(hidden map[models.RowID]bool) {
	for i := range b.Lines {
		if hidden[b.Lines[i].User] {
			b.Lines[i].Sum = models.Sum{}
		}
	}
}

// leave takes people who were erased out of their teams, with what they have: what is stored of them goes later.
func (b *body) leave(erased func(models.RowID) bool) {
	for i := range b.Lines {
		if erased(b.Lines[i].User) {
			b.Lines[i].Sum, b.Lines[i].Present = models.Sum{}, false
		}
	}
}

// erase makes the lines of a user nameless, and reports whether there were any.
func (b *body) erase(user models.RowID) (named bool) {
	for i := range b.Lines {
		if b.Lines[i].User == user {
			b.Lines[i].User, named = 0, true
		}
	}
	return named
}

// standing is a body, ranked.
type standing struct {
	// Teams and people are ordered, first is first. People are those who are in a team and have a score.
	teams  []teamPlace
	people []place
	// users has the index in people of everybody but the nameless, and teamOf the team that everybody is in.
	users  map[models.RowID]int
	teamOf map[models.RowID]models.GroupRow
	// of has the index in teams of each group.
	of map[models.GroupRow]int
}

// teamPlace is a team in a standing.
type teamPlace struct {
	team
	// present is how many people are in it.
	present int64
	// counted is on how many days together they counted, and days how many have begun; 0 for TeamSum.
	counted, days int64
	models.Sum
}

// place is a person in a standing.
type place struct {
	models.SumEntry
	group models.GroupRow
}

// rank ranks what everybody has.
func rank(measure models.TeamMeasure, b *body) *standing {
	s := &standing{
		users: make(map[models.RowID]int), teamOf: make(map[models.RowID]models.GroupRow), of: make(map[models.GroupRow]int),
		teams: make([]teamPlace, len(b.Teams)),
	}
	for i, t := range b.Teams {
		s.teams[i].team = t
		s.of[t.Group] = i
	}
	for _, l := range b.Lines {
		i, ok := s.of[l.Group]
		if !ok {
			continue
		}
		t := &s.teams[i]
		t.Sum = t.Plus(l.Sum)
		if measure == models.TeamMean {
			t.counted, t.days = t.counted+l.Counted, b.Days
		}
		if !l.Present {
			continue
		}
		t.present++
		if l.User != 0 {
			s.teamOf[l.User] = l.Group
		}
		if l.Days > 0 {
			s.people = append(s.people, place{models.SumEntry{User: l.User, Sum: l.Sum}, l.Group})
		}
	}
	slices.SortFunc(s.teams, teamPlace.compare)
	for i, t := range s.teams {
		s.of[t.Group] = i
	}
	slices.SortStableFunc(s.people, func(a, b place) int { return a.Compare(b.SumEntry) })
	for i, p := range s.people {
		if p.User != 0 {
			s.users[p.User] = i
		}
	}
	return s
}

// compare returns a negative number if t ranks before other: the higher score first, the exact one and
// not the rounded, then the one that has risen last earlier, then by id.
func (t teamPlace) compare(other teamPlace) int {
	// score / counted, by cross-multiplication; both have the same days.
	high, low := bits.Mul64(uint64(t.Score), uint64(max(other.counted, 1)))
	otherHigh, otherLow := bits.Mul64(uint64(other.Score), uint64(max(t.counted, 1)))
	if c := cmp.Or(cmp.Compare(otherHigh, high), cmp.Compare(otherLow, low)); c != 0 {
		return c
	}
	if t.Score > 0 {
		if c := cmp.Compare(t.ReachedAt, other.ReachedAt); c != 0 {
			return c
		}
	}
	return cmp.Compare(t.ID, other.ID)
}

// shown returns the score of the team: that of TeamMean rounded down.
func (t teamPlace) shown() int64 {
	if t.counted == 0 {
		return t.Score
	}
	high, low := bits.Mul64(uint64(t.Score), uint64(t.days))
	score, _ := bits.Div64(high, low, uint64(t.counted)) // days <= counted * 366, so it fits
	return int64(score)
}
