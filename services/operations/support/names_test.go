package support

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gorm.io/gorm"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/people/directory"
	"stepboard/services/servicetest"
)

// Users are found by the beginning of their names, whatever the case, page by page in the order of
// the names, by an index.
func TestFindUsers(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		people := directory.New(directory.Options{Store: directory.NewStore(env.Gorm), Copies: servicetest.Users(env), Memory: 1 << 20, Log: env.Log})
		t.Cleanup(people.Close)
		for i, name := range []string{"Émile", "émilie", "EMIL", "Ann", "王小明", "anna", "An%", "ANN"} {
			id := models.UserID(fmt.Sprint(i))
			if _, err := people.Put(t.Context(), id, models.Profile{Nickname: name}); err != nil {
				t.Fatal(err)
			}
		}
		s := New(Options{Store: NewStore(env.Gorm)})
		for beginning, want := range map[string]string{
			"an": "An% Ann ANN anna", "AN%": "An%", "É": "Émile émilie", "e\u0301MILI": "émilie", "王": "王小明", "x": "", "_": "", "%": "",
		} {
			var names []string
			var after models.RowID
			for {
				page := testenv.Must(s.Find(t.Context(), beginning, after, 2))
				for _, found := range page {
					names = append(names, found.Nickname)
					after = found.Row
				}
				if len(page) < 2 {
					break
				}
			}
			if got := strings.Join(names, " "); got != want {
				t.Errorf("%q finds %q, want %q", beginning, got, want)
			}
		}
		if plan := planOf(t, env.Gorm); !strings.Contains(plan, "users_name") {
			t.Errorf("the plan is\n%s", plan)
		}
	})
}

// planOf returns the plan of the statement by which users are found.
func planOf(t *testing.T, db *gorm.DB) (plan string) {
	t.Helper()
	err := db.Transaction(func(tx *gorm.DB) error {
		explain := "EXPLAIN QUERY PLAN "
		if tx.Name() == "postgres" {
			explain = "EXPLAIN "
			if err := tx.Exec("SET LOCAL enable_seqscan = off").Error; err != nil { // of a few rows it would be cheaper
				return err
			}
		}
		query := tx.ToSQL(func(dry *gorm.DB) *gorm.DB {
			var page []Found
			return namedAfter(dry, models.NameKey("an"), "an", 0, 20).Find(&page)
		})
		var lines []map[string]any
		err := tx.Raw(explain + query).Scan(&lines).Error
		plan = fmt.Sprint(slices.Collect(func(yield func(any) bool) {
			for _, line := range lines {
				yield(line)
			}
		}))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return plan
}
