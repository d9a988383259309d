package services

import (
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

// wingTables has the tables and views of each wing.
var wingTables = map[string][]string{
	"operations": {"audit_log", "erasure_keys", "folder_moves", "job_runs", "open_reviews", "process_minutes", "processes", "reviews"},
	"rankings":   {"digests", "likes"},
	"boards": {
		"archive_versions", "archived_ranks", "archived_scores", "board_archives", "board_buckets", "board_results", "boards",
		"bucket_states", "corrections", "dead_letters", "hot_scores", "pending_corrections", "reported_scores", "score_events", "score_totals",
	},
	"people": {
		"erasures", "friend_requests", "friendships", "group_members", "groups", "kept_choices", "not_shown",
		"privacy_choices", "renames", "row_id_gaps", "users",
	},
	"platform": {"cursor_keys", "webhook_attempts", "webhook_deliveries"},
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
	"boards/archive erasures":  "a run leaves out users who were erased, in the transaction that stores the rows",
	"boards/board erasures":    "scores of erased users are not stored again",
	"boards/corrections users": "a correction locks its user, because one holds at a time, and lists name users",
	"boards/results erasures":  "the result of an event leaves out users who were erased, in the statement that reads the totals",
}

// conditions has the functions of internal/visible, and the tables that their conditions read.
var conditions = map[string]string{"NotHidden": "users", "Exists": "users", "ToViewer": "not_shown"}

// The linter checks what the packages of a wing import. This checks which tables their SQL uses.
// It sees the names behind the keywords of SQL, those that literals begin with, and types of
// models that have tables in files that use gorm.
func TestTablesOfOtherWings(t *testing.T) {
	t.Parallel()
	wingOf := make(map[string]string)
	for wing, tables := range wingTables {
		for _, table := range tables {
			wingOf[table] = wing
		}
	}
	if diff := cmp.Diff(migratedTables(), slices.Sorted(maps.Keys(wingOf))); diff != "" {
		t.Fatalf("tables and views (-migrations +wingTables):\n%s", diff)
	}
	tableOf := modelTables()
	crossings := make(map[string]bool)
	for _, path := range testenv.Must(filepath.Glob("*/*/*.go")) {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		pkg := filepath.ToSlash(filepath.Dir(path))
		wing, _, _ := strings.Cut(pkg, "/")
		for _, table := range usedTables(path, tableOf) {
			if of, known := wingOf[table]; known && of != wing && !slices.Contains(below[wing], of) {
				crossings[pkg+" "+table] = true
			}
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(permitted)), slices.Sorted(maps.Keys(crossings))); diff != "" {
		t.Errorf("packages whose SQL uses tables of wings beside or above them (-permitted +found):\n%s", diff)
	}
}

// migratedTables returns the tables and views that the migrations create, ascending.
func migratedTables() []string {
	created := regexp.MustCompile(`(?m)^CREATE (?:TABLE|VIEW) (\w+)`)
	var names []string
	for _, path := range testenv.Must(filepath.Glob("../migrations/*/*.sql")) {
		for _, found := range created.FindAllSubmatch(testenv.Must(os.ReadFile(path)), -1) {
			names = append(names, string(found[1]))
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

// usedTables returns what may be the names of tables in the code of a file.
func usedTables(path string, tableOf map[string]string) (names []string) {
	file := testenv.Must(parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution))
	usesGorm := slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"gorm.io/gorm"` })
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				for _, found := range tableName.FindAllStringSubmatch(testenv.Must(strconv.Unquote(n.Value)), -1) {
					names = append(names, found[1])
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
	return names
}
