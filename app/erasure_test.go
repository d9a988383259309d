package app_test

import (
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"stepboard/internal/keys"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// aboutNobody are the tables whose rows name no user, and erasures and identities_erased, which have what is left
// of them. Those of digests have the row id up to which users have got one.
var aboutNobody = []string{
	"archive_versions", "boards", "board_buckets", "board_archives", "board_results", "competition_teams", "competitions", "cursor_keys", "digests", "erasure_keys", "erasures",
	"folder_moves", "goose_db_version", "job_runs", "pending_corrections", "process_minutes", "processes", "push_keys", "revoked_keys", "row_id_gaps", "sign_in_counts", "webhook_attempts",
	"identities_erased",
}

// onlySQLite and onlyPostgres are the tables that the other database does not have.
var (
	onlySQLite   = []string{"archive_versions", "archived_ranks", "hot_batches", "hot_scores"}
	onlyPostgres = []string{"folder_moves"}
)

// subjects returns what is stored about users.
func subjects(t testing.TB) []models.Subject {
	t.Helper()
	a := build(t, testenv.Local(t))
	t.Cleanup(func() { _ = a.Close() })
	return a.Erasure.Subjects()
}

// Every table belongs to a subject of erasures and exports, or names nobody. If this test
// fails because of a new table, add it to a subject, or to aboutNobody.
func TestEveryTable(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		query := `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'`
		if env.Pool != nil {
			query = `SELECT relname FROM pg_class
				WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition`
		}
		var tables []string
		if err := env.Gorm.Raw(query).Scan(&tables).Error; err != nil {
			t.Fatal(err)
		}
		if env.Pool != nil {
			tables = append(tables, onlySQLite...)
		} else {
			tables = append(tables, onlyPostgres...)
		}
		known := slices.Clone(aboutNobody)
		for _, subject := range subjects(t) {
			known = append(known, subject.Tables...)
		}
		want(t, "tables", tables, known)
	})
}

// keysOfNobody are the methods of keys.Builder whose keys and contents name no user; those
// that name one for minutes at most; and the queue, whose entries are dropped when they are
// applied, and age out.
var keysOfNobody = []string{
	"BoardHours", "BoardNow", "LossCheckpoint", "SetsGeneration", "SetsChanging", "UserBegin", "UserCounters", "UserRowBegin", "AddressCalls", "AddressFailures",
	"Changes", "SetsChanges", "UserCalls", "KeyCalls", "GroupJoins", "AddressLogins",
	"IngestStream", "IngestCounts", "IngestHorizons", "Tried",
	"PassedChanges", "Frozen", // an archive run leaves the user out and then drops it
}

// setsKind finds the kinds of cached sets in the source.
var setsKind = regexp.MustCompile(`(?m)^const \w+ Sets = "([a-z-]+)"`)

// Every key belongs to a subject of erasures, or names nobody. If this test fails because of a new
// key, add it to a subject, or to keysOfNobody.
func TestEveryKey(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../internal/keys/keys.go")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, kind := range setsKind.FindAllSubmatch(source, -1) {
		all = append(all, string(kind[1]))
	}
	builder := reflect.TypeFor[keys.Builder]()
	for i := range builder.NumMethod() {
		all = append(all, builder.Method(i).Name)
	}
	known := slices.Clone(keysOfNobody)
	for _, subject := range subjects(t) {
		known = append(known, subject.Keys...)
	}
	want(t, "keys", all, known)
}

// want compares two lists without regard to their order.
func want(t *testing.T, what string, got, want []string) {
	t.Helper()
	missing := func(from, in []string) []string {
		return slices.Sorted(func(yield func(string) bool) {
			for name := range maps.Keys(set(from)) {
				if !set(in)[name] && !yield(name) {
					return
				}
			}
		})
	}
	if unknown := missing(got, want); unknown != nil {
		t.Errorf("no subject has the %s %s", what, strings.Join(unknown, ", "))
	}
	if gone := missing(want, got); gone != nil {
		t.Errorf("there are no %s %s", what, strings.Join(gone, ", "))
	}
}

func set(names []string) map[string]bool {
	all := make(map[string]bool, len(names))
	for _, name := range names {
		all[name] = true
	}
	return all
}
