//go:build !race

package friends_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"stepboard/internal/testenv"
	"stepboard/models"
)

// Importing many edges at once has the result of adding them one by one, whatever the
// edges: repeated, reversed, of full users, between users who have asked each other.
func TestImportAgreesWithAModel(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		service, ctx, round := newService(t, env), t.Context(), models.RowID(0)
		rapid.Check(t, func(rt *rapid.T) {
			const people = 6
			round++
			base := round * 100
			user := func(label string) models.RowID {
				return base + models.RowID(rapid.IntRange(1, people).Draw(rt, label))
			}
			for row := base + 1; row <= base+people; row++ {
				exist(t, env, row)
				count := rapid.SampledFrom([]int{0, models.MaxFriends - 2, models.MaxFriends - 1, models.MaxFriends}).Draw(rt, "count")
				if err := env.Gorm.Table("users").Where("user_id = ?", row).Update("friend_count", count).Error; err != nil {
					rt.Fatal(err)
				}
			}
			for range rapid.IntRange(0, 3).Draw(rt, "requests") {
				if from, to := user("from"), user("to"); from != to {
					_, _, err := service.SendRequest(ctx, from, to)
					if err != nil && models.CodeOf(err) != models.CodeFriendLimit {
						rt.Fatal(err)
					}
				}
			}
			want := stored(t, env, base, base+99)
			for range rapid.IntRange(1, 3).Draw(rt, "imports") {
				edges := make([]models.Edge, rapid.IntRange(0, 12).Draw(rt, "edges"))
				for i := range edges {
					edges[i] = models.Edge{A: user("a"), B: user("b")}
				}
				wantAdded, wantRejected := want.add(edges)
				added, rejected, err := service.Service.Import(ctx, edges)
				if err != nil {
					rt.Fatal(err)
				}
				var said []string
				for _, r := range rejected {
					said = append(said, fmt.Sprintf("%d: %v", r.Index, r.Err))
				}
				if added != wantAdded || !slices.Equal(said, wantRejected) {
					rt.Fatalf("%v: %d added, rejected %q, want %d and %q", edges, added, said, wantAdded, wantRejected)
				}
			}
			if diff := cmp.Diff(want, stored(t, env, base, base+99), cmp.AllowUnexported(importModel{})); diff != "" {
				rt.Fatalf("-want +got:\n%s", diff)
			}
		})
	})
}
