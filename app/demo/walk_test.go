package demo

import (
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/rankings/ranking"
)

// In the hour in which a day has turned cold and is not archived yet, people's past has it.
func TestDemoPastInTheHourBeforeTheArchive(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	env.Clock.Set(time.Date(2026, 11, 22, 16, 20, 0, 0, time.UTC)) // the 23rd in Shanghai
	s := populated(t, env, 60)
	for ago := range models.Date(10) {
		day := testenv.Must(models.ParseDate("2026-11-23")) - ago
		ranking := testenv.Must(s.app.Ranking.Top(t.Context(), ranking.Query{Board: stepsBoard, Date: &day, Limit: 1}))
		if ranking.Total < 40 {
			t.Errorf("on %v %d of 60 people have steps", day, ranking.Total)
		}
	}
}

// Somebody whom a visitor has erased neither walks nor is active any more, and is not
// offered: an upload would make a new user of the same id.
func TestDemoErasedPeople(t *testing.T) {
	t.Parallel()
	s := populated(t, testenv.Local(t), 60)
	erased := s.ids[0]
	testenv.Must(s.app.Erasure.Begin(t.Context(), erased, false))
	for range 200 { // each time one person in twenty uploads
		if err := s.uploadSome(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for range 200 { // each time one of forty people with a chance of a half
		if err := s.giveSome(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if row := testenv.Must(s.app.Directory.FindOne(t.Context(), erased)); row != 0 {
		t.Errorf("the erased person is user %d again", row)
	}
	ids, rows, err := s.present(t.Context(), s.ids[:3])
	if err != nil || len(ids) != 2 || ids[0] != s.ids[1] || len(rows) != 2 || rows[0] == 0 {
		t.Errorf("present are %v with rows %v, %v", ids, rows, err)
	}
	if row := testenv.Must(s.app.Directory.FindOne(t.Context(), s.ids[1])); row != rows[0] {
		t.Errorf("the row of %s is %d, want %d", s.ids[1], rows[0], row)
	}
}
