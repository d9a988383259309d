//go:build !race

package friends_test

import (
	"testing"

	"pgregory.net/rapid"

	"stepboard/internal/testenv"
	"stepboard/models"
)

// Random changes through all calls leave the expected graph.
func TestGraphAgreesWithAModel(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		service, ctx := newService(t, env), t.Context()
		round := models.RowID(0)
		rapid.Check(t, func(rt *rapid.T) {
			round++
			const people = 6
			base := round * 100
			user := func(label string) models.RowID {
				return base + models.RowID(rapid.IntRange(1, people).Draw(rt, label))
			}
			want := make(map[models.RowID]map[models.RowID]bool)
			set := func(a, b models.RowID, friends bool) {
				for _, e := range []models.Edge{{A: a, B: b}, {A: b, B: a}} {
					if want[e.A] == nil {
						want[e.A] = make(map[models.RowID]bool)
					}
					if friends {
						want[e.A][e.B] = true
					} else {
						delete(want[e.A], e.B)
					}
				}
			}
			for range rapid.IntRange(1, 6).Draw(rt, "changes") {
				a := user("a")
				switch rapid.SampledFrom([]string{"import", "replace", "remove"}).Draw(rt, "change") {
				case "import":
					var edges []models.Edge
					for range rapid.IntRange(1, 5).Draw(rt, "edges") {
						e := models.Edge{A: user("edge"), B: user("edge")}
						edges = append(edges, e)
						if e.A != e.B {
							set(e.A, e.B, true)
						}
					}
					if _, _, err := service.Import(ctx, edges); err != nil {
						rt.Fatal(err)
					}
				case "replace":
					var list []models.RowID
					for i := models.RowID(1); i <= people; i++ {
						in := rapid.Bool().Draw(rt, "in")
						if base+i != a {
							set(a, base+i, in)
						}
						if in && base+i != a {
							list = append(list, base+i)
						}
					}
					if err := service.Replace(ctx, a, list); err != nil {
						rt.Fatal(err)
					}
				case "remove":
					b := user("b")
					set(a, b, false)
					if err := service.Remove(ctx, a, b); err != nil {
						rt.Fatal(err)
					}
				}
				who := user("who") // reading fills the cache, which the next change must empty
				got, err := service.IDs(ctx, who)
				if err != nil {
					rt.Fatal(err)
				}
				if len(got) != len(want[who]) {
					rt.Fatalf("user %v has friends %v, want %v", who, got, want[who])
				}
			}
			var rows []models.User
			if err := env.Gorm.Where("user_id BETWEEN ? AND ?", base, base+99).Find(&rows).Error; err != nil {
				rt.Fatal(err)
			}
			for _, row := range rows {
				if row.FriendCount != len(want[row.Row]) {
					rt.Fatalf("user %v counts %d, want %d", row.Row, row.FriendCount, len(want[row.Row]))
				}
			}
		})
	})
}
