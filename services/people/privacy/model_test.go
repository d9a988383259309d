//go:build !race

package privacy_test

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"stepboard/internal/testenv"
	"stepboard/models"
)

var kinds = []models.ChoiceKind{models.HiddenFrom, models.Muted, models.Blocked}

// model says who is shown to whom.
type model struct {
	friends map[models.Edge]bool // in both directions
	hidden  map[models.RowID]bool
	choices map[models.ChoiceKind]map[models.Edge]bool // from who has chosen
}

func newModel() *model {
	m := &model{friends: make(map[models.Edge]bool), hidden: make(map[models.RowID]bool)}
	m.choices = make(map[models.ChoiceKind]map[models.Edge]bool)
	for _, kind := range kinds {
		m.choices[kind] = make(map[models.Edge]bool)
	}
	return m
}

// apart reports whether a viewer is not shown a person because of a choice of either.
func (m *model) apart(viewer, person models.RowID) bool {
	mine, theirs := models.Edge{A: viewer, B: person}, models.Edge{A: person, B: viewer}
	return m.choices[models.Muted][mine] || m.choices[models.Blocked][mine] ||
		m.choices[models.HiddenFrom][theirs] || m.choices[models.Blocked][theirs]
}

// shown returns the friends that a viewer is shown, and notShown those that are not
// because of a choice of either.
func (m *model) shown(viewer models.RowID, people []models.RowID) (shown, notShown []models.RowID) {
	for _, person := range people {
		if m.apart(viewer, person) {
			notShown = append(notShown, person)
		} else if m.friends[models.Edge{A: viewer, B: person}] && !m.hidden[person] {
			shown = append(shown, person)
		}
	}
	return shown, notShown
}

func (m *model) setFriends(a, b models.RowID, are bool) {
	m.friends[models.Edge{A: a, B: b}], m.friends[models.Edge{A: b, B: a}] = are, are
}

var steps = []string{"befriend", "befriend", "unfriend", "hide", "show", "choose", "choose", "undo"}

// step makes a random call of a process and notes it in the model.
func (m *model) step(t *rapid.T, p process, people []models.RowID) {
	pair := rapid.Permutation(people).Draw(t, "pair")
	a, b, ctx := pair[0], pair[1], t.Context()
	kind := rapid.SampledFrom(kinds).Draw(t, "kind")
	var err error
	switch rapid.SampledFrom(steps).Draw(t, "step") {
	case "befriend":
		err = p.befriend(ctx, models.Edge{A: a, B: b})
		m.setFriends(a, b, true)
	case "unfriend":
		err = p.friends.Remove(ctx, testenv.ID(a), testenv.ID(b))
		m.setFriends(a, b, false)
	case "hide":
		err = p.SetHidden(ctx, testenv.ID(a), true)
		m.hidden[a] = true
	case "show":
		err = p.SetHidden(ctx, testenv.ID(a), false)
		m.hidden[a] = false
	case "choose":
		err = p.Choose(ctx, testenv.ID(a), kind, testenv.ID(b))
		m.choices[kind][models.Edge{A: a, B: b}] = true
		if kind == models.Blocked {
			m.setFriends(a, b, false)
		}
	case "undo":
		err = p.Undo(ctx, testenv.ID(a), kind, testenv.ID(b))
		m.choices[kind][models.Edge{A: a, B: b}] = false
	}
	if err != nil {
		t.Fatal(err)
	}
}

// After each change every process has the friend sets and the sets of those who are not
// shown as the model says, in Redis as in SQL.
func TestWhoIsShown(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		processes := []process{newProcess(env), newProcess(env)}
		if env.Redis == nil {
			processes = processes[:1] // there is no other on local stores
		}
		base := models.RowID(0)
		rapid.Check(t, func(rt *rapid.T) {
			base += 10
			people := []models.RowID{base + 1, base + 2, base + 3, base + 4}
			exist(t, env, people...)
			m := newModel()
			for range rapid.IntRange(1, 15).Draw(rt, "steps") {
				m.step(rt, processes[rapid.IntRange(0, len(processes)-1).Draw(rt, "process")], people)
				for _, viewer := range people {
					shown, notShown := m.shown(viewer, people)
					for _, p := range processes {
						m.check(rt, p, viewer, shown, notShown)
					}
				}
			}
		})
	})
}

// check compares what a process returns of a viewer with what is expected.
func (m *model) check(t *rapid.T, p process, viewer models.RowID, shown, notShown []models.RowID) {
	ids, err := p.friends.IDs(t.Context(), viewer)
	slices.Sort(ids)
	if err != nil || !slices.Equal(ids, shown) {
		t.Fatalf("%v is shown %v, %v, want %v", viewer, ids, err, shown)
	}
	ids, _, err = p.NotShown(t.Context(), viewer)
	slices.Sort(ids)
	if err != nil || !slices.Equal(ids, notShown) {
		t.Fatalf("%v is not shown %v, %v, want %v", viewer, ids, err, notShown)
	}
	for _, friend := range append(slices.Clone(shown), notShown...) {
		since, visible, err := p.friends.Since(t.Context(), viewer, friend)
		if err != nil || since.IsZero() == m.friends[models.Edge{A: viewer, B: friend}] || visible != slices.Contains(shown, friend) {
			t.Fatalf("%v and %v: since %v, shown %v, %v", viewer, friend, since, visible, err)
		}
	}
	everybody, err := p.friends.Everybody(t.Context(), viewer)
	if err != nil {
		t.Fatal(err)
	}
	m.checkEverybody(t, viewer, everybody, shown)
	hidden, err := p.Hidden(t.Context(), testenv.ID(viewer))
	if err != nil || hidden != m.hidden[viewer] {
		t.Fatalf("%v hides: %v, %v", viewer, hidden, err)
	}
}

// checkEverybody compares a list of all friends, of whom a viewer is shown some, with what is
// expected: those whom the viewer has muted are not in it, and all who hide are.
func (m *model) checkEverybody(t *rapid.T, viewer models.RowID, got []models.CirclePerson, shown []models.RowID) {
	var want []models.CirclePerson
	for edge, are := range m.friends {
		if edge.A == viewer && are && !m.choices[models.Muted][edge] && !m.choices[models.Blocked][edge] {
			want = append(want, models.CirclePerson{User: edge.B, Shown: slices.Contains(shown, edge.B)})
		}
	}
	slices.SortFunc(want, func(a, b models.CirclePerson) int { return cmp.Compare(a.User, b.User) })
	same := slices.EqualFunc(got, want, func(g, w models.CirclePerson) bool {
		return g.User == w.User && g.Shown == w.Shown && !g.Since.IsZero()
	})
	if !same {
		t.Fatalf("all friends of %v: %v, want %v", viewer, got, want)
	}
}
