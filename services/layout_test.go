package services

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorm.io/gorm/schema"

	"stepboard/internal/testenv"
)

// ownTables has the tables and views of each package. Each has one owner.
var ownTables = map[string][]string{
	"app/move":              {"folder_moves"},
	"operations/audit":      {"audit_log"},
	"operations/erasure":    {"erasure_keys"},
	"operations/reviews":    {"open_reviews", "reviews"},
	"operations/status":     {"job_runs", "process_minutes", "processes"},
	"rankings/competitions": {"standings"},
	"rankings/digests":      {"digests"},
	"rankings/likes":        {"likes"},
	"rankings/notices":      {"push_keys", "push_subscriptions"},
	"boards/archive":        {"archive_versions", "archived_ranks", "archived_scores", "board_archives"},
	"boards/board":          {"hot_batches", "hot_scores"},
	"boards/catalog":        {"board_buckets", "boards", "bucket_states"},
	"boards/corrections":    {"corrections", "pending_corrections", "reported_scores"},
	"boards/holds":          {"held_scores"},
	"boards/ingest":         {"dead_letters"},
	"boards/ledger":         {"score_events", "score_totals"},
	"boards/phones":         {"upload_addresses"},
	"boards/results":        {"board_results"},
	"people/directory":      {"erasures", "renames", "row_id_gaps", "users"},
	"people/friends":        {"friend_requests", "friendships"},
	"people/groups":         {"group_members", "groups"},
	"people/identities":     {"identities", "identities_erased"},
	"people/privacy":        {"kept_choices", "not_shown", "privacy_choices"},
	"people/sessions":       {"newcomers", "operators", "sessions", "sign_in_codes", "sign_in_counts"},
	"people/teams":          {"competition_members", "competition_teams", "competitions"},
	"platform/cursor":       {"cursor_keys"},
	"platform/outcomes":     {"webhook_attempts", "webhook_deliveries"},
	"platform/revoked":      {"revoked_keys"},
}

// below has the wings whose tables a wing may use, besides its own.
var below = map[string][]string{
	"operations": {"rankings", "boards", "people", "platform"},
	"rankings":   {"boards", "people", "platform"},
	"boards":     {"platform"},
	"people":     {"platform"},
}

// permitted has the packages whose SQL uses a table of a wing beside or above their own, and why.
var permitted = map[string]string{
	"boards/archive erasures":              "a run leaves out users who were erased, in the transaction that stores the rows",
	"boards/board erasures":                "scores of erased users are not stored again",
	"boards/corrections users":             "a correction locks its user, because one holds at a time, and lists name users",
	"boards/phones users":                  "an address locks its user, who has at most ten, and names the user for whom it uploads",
	"people/teams standings":               "the transaction that deletes a competition deletes its standings",
	"platform/outcomes push_subscriptions": "the statement that writes an outcome writes a delivery for each subscription that wants it",
	"boards/holds erasures":                "totals of erased users are not held",
	"boards/results erasures":              "the result of an event leaves out users who were erased, in the statement that reads the totals",
}

// conditions has the functions of internal/visible, and the tables that their conditions read.
var conditions = map[string]string{"NotHidden": "users", "Exists": "users", "ToViewer": "not_shown"}

// writers has the packages whose SQL changes a table of another package, and why.
var writers = map[string]string{
	"boards/archive corrections":                "the transaction that completes a run or an erasure ends what it has applied or made nameless",
	"boards/archive pending_corrections":        "the transaction that completes a run has applied them",
	"boards/archive reported_scores":            "a run keeps what was reported under the corrections that it applies",
	"boards/archive score_totals":               "totals of an archived event get the row id of the archived score in one transaction",
	"boards/catalog corrections":                "corrections of an event are filed under its last day, which moves with its end",
	"operations/erasure erasures":               "the directory reads who was erased; the sweeps record how far they are",
	"operations/wechat identities":              "a login stores WeChat's session key with the identity",
	"people/teams standings":                    "the transaction that deletes a competition deletes its standings",
	"rankings/competitions competition_members": "the erasure of a user from the standings of a competition ends that they count in it",
	"rankings/competitions competitions":        "the transaction that stores a final standing makes the competition final",
	"people/friends users":                      "the number of friends changes in the transaction of the friendships; invite codes lead to friendships",
}

// The linter checks what the packages of a wing import. This checks which tables their SQL uses,
// and that only the owner of a table changes it. It sees the names behind the keywords of SQL, those
// that literals begin with, and types of models that have tables in files that use gorm. What gorm
// changes by itself it takes for read.
func TestTablesOfOthers(t *testing.T) {
	t.Parallel()
	ownerOf := make(map[string]string)
	for owner, tables := range ownTables {
		for _, table := range tables {
			if ownerOf[table] != "" {
				t.Errorf("table %s has the owners %s and %s", table, ownerOf[table], owner)
			}
			ownerOf[table] = owner
		}
	}
	if diff := cmp.Diff(migratedTables(), slices.Sorted(maps.Keys(ownerOf))); diff != "" {
		t.Fatalf("tables and views (-migrations +ownTables):\n%s", diff)
	}
	tableOf := modelTables()
	crossings, changes := make(map[string]bool), make(map[string]bool)
	for _, path := range testenv.Must(filepath.Glob("*/*/*.go")) {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		pkg := filepath.ToSlash(filepath.Dir(path))
		wing, _, _ := strings.Cut(pkg, "/")
		used, changed := usedTables(path, tableOf)
		for _, table := range used {
			of, _, known := strings.Cut(ownerOf[table], "/")
			if known && of != wing && !slices.Contains(below[wing], of) {
				crossings[pkg+" "+table] = true
			}
		}
		for _, table := range changed {
			if owner := ownerOf[table]; owner != "" && owner != pkg {
				changes[pkg+" "+table] = true
			}
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(permitted)), slices.Sorted(maps.Keys(crossings))); diff != "" {
		t.Errorf("packages whose SQL uses tables of wings beside or above them (-permitted +found):\n%s", diff)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(writers)), slices.Sorted(maps.Keys(changes))); diff != "" {
		t.Errorf("packages whose SQL changes tables of others (-writers +found):\n%s", diff)
	}
}

// What a database or the absence of Redis decides is decided in few places: where the stores are
// opened and chosen, and in files that are named after what is special in them.
func TestWhoAsksForTheStores(t *testing.T) {
	t.Parallel()
	asks := regexp.MustCompile(`\.Name\(\) [!=]= "(postgres|sqlite)"|dialect\.Postgres\(|\bRedis [!=]= nil|\blocal\(\)`)
	may := regexp.MustCompile(`^(app/backing\w*\.go|bench/.*|services/servicetest/.*|internal/(dialect|lists|stores|testenv)/.*|(.*/)?(postgres|sqlite|redis|local|sql_dialects)\w*\.go|.*_test\.go)$`)
	found := 0
	err := filepath.WalkDir("..", func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		name := filepath.ToSlash(path)[len("../"):]
		text := testenv.Must(os.ReadFile(path))
		for _, at := range asks.FindAllIndex(text, -1) {
			if found++; !may.MatchString(name) {
				t.Errorf("%s:%d asks which stores there are: %s", name, 1+bytes.Count(text[:at[0]], []byte("\n")), text[at[0]:at[1]])
			}
		}
		return nil
	})
	if err != nil || found == 0 {
		t.Errorf("%d places, %v", found, err)
	}
}

// migratedTables returns the tables and views that the migrations create, by their names now, ascending. A view with the former
// name of a table is for other versions alone.
func migratedTables() []string {
	created, renamed := regexp.MustCompile(`(?m)^CREATE (?:TABLE|VIEW) (\w+)`), regexp.MustCompile(`(?m)^ALTER TABLE (\w+) RENAME TO (\w+)`)
	dropped, now := regexp.MustCompile(`(?m)^DROP TABLE (\w+)`), make(map[string]string)
	var names []string
	for _, path := range testenv.Must(filepath.Glob("../migrations/*/*.sql")) {
		text := testenv.Must(os.ReadFile(path))
		for _, found := range created.FindAllSubmatch(text, -1) {
			names = append(names, string(found[1]))
		}
		for _, found := range renamed.FindAllSubmatch(text, -1) {
			now[string(found[1])] = string(found[2])
		}
		for _, found := range dropped.FindAllSubmatch(text, -1) {
			maps.DeleteFunc(now, func(_, name string) bool { return name == string(found[1]) })
		}
	}
	for i, name := range names {
		if now[name] != "" {
			names[i] = now[name]
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// modelTables returns the table in which gorm stores each struct of package models.
func modelTables() map[string]string {
	structs := regexp.MustCompile(`(?m)^type (\w+) struct`)
	named := regexp.MustCompile(`(?m)^func \((\w+)\) TableName\(\) string { return "(\w+)" }`)
	tables := make(map[string]string)
	for _, path := range testenv.Must(filepath.Glob("../models/*.go")) {
		source := testenv.Must(os.ReadFile(path))
		for _, found := range structs.FindAllSubmatch(source, -1) {
			tables[string(found[1])] = schema.NamingStrategy{}.TableName(string(found[1]))
		}
		for _, found := range named.FindAllSubmatch(source, -1) {
			tables[string(found[1])] = string(found[2])
		}
	}
	return tables
}

// tableName finds what may be the name of a table in a literal.
var tableName = regexp.MustCompile(`(?:\b(?:FROM|JOIN|INTO|UPDATE|COPY|TRUNCATE)\s+|^)(\w+)(?:\s|[(),;]|$)`)

// changedName finds what may be the name of a table that a statement changes.
var changedName = regexp.MustCompile(`\b(?:INSERT INTO|UPDATE|DELETE FROM|COPY|TRUNCATE)\s+(\w+)`)

// usedTables returns what may be the names of tables in the code of a file, and of those that its
// SQL changes.
func usedTables(path string, tableOf map[string]string) (names, changed []string) {
	file := testenv.Must(parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution))
	usesGorm := slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"gorm.io/gorm"` })
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				text := testenv.Must(strconv.Unquote(n.Value))
				for _, found := range tableName.FindAllStringSubmatch(text, -1) {
					names = append(names, found[1])
				}
				for _, found := range changedName.FindAllStringSubmatch(text, -1) {
					changed = append(changed, found[1])
				}
			}
		case *ast.SelectorExpr:
			from, _ := n.X.(*ast.Ident)
			switch {
			case from == nil:
			case from.Name == "models" && usesGorm:
				names = append(names, tableOf[n.Sel.Name])
			case from.Name == "visible":
				names = append(names, conditions[n.Sel.Name])
			}
		}
		return true
	})
	return names, changed
}
