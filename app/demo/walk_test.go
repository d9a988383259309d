package demo

import (
	"testing"

	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/services/ledger"
)

// Somebody whom a visitor has erased neither walks nor is active any more, and is not
// offered: an upload would make a new user of the same id.
func TestDemoErasedPeople(t *testing.T) {
	t.Parallel()
	env := testenv.Embedded(t)
	cfg := config.Default()
	cfg.Boards = boards(env.Clock.Now())
	a := embeddedApp(t, env, cfg)
	p := testenv.Must(newPeople(t.Context(), Options{Users: 60, Seed: 1}))
	if err := p.store(t.Context(), a, env.Clock.Now, noProgress{}); err != nil {
		t.Fatal(err)
	}
	erased := p.ids[0]
	testenv.Must(a.Erasure.Begin(t.Context(), erased, false))
	for range 200 { // each time one person in twenty uploads
		if err := p.uploadSome(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	var g gifts
	for _, increments := range [][]ledger.Increment{{g.increment(erased, 1)}, {g.increment(erased, 1), g.increment(p.ids[1], 1)}} {
		if err := addOfPresent(t.Context(), a, giftsBoard, increments...); err != nil {
			t.Fatal(err)
		}
	}
	if row := testenv.Must(a.Directory.FindOne(t.Context(), erased)); row != 0 {
		t.Errorf("the erased person is user %d again", row)
	}
	ids, rows, err := present(t.Context(), a, p.ids[:3])
	if err != nil || len(ids) != 2 || ids[0] != p.ids[1] || len(rows) != 2 || rows[0] == 0 {
		t.Errorf("present are %v with rows %v, %v", ids, rows, err)
	}
	if row := testenv.Must(a.Directory.FindOne(t.Context(), p.ids[1])); row != rows[0] {
		t.Errorf("the row of %s is %d, want %d", p.ids[1], rows[0], row)
	}
}
