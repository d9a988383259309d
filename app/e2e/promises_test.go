package e2e_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"stepboard/internal/testenv"
)

// promiseLink is a link to a test: its name and the path of its file.
var promiseLink = regexp.MustCompile("\\[`(Test\\w+)`\\]\\(([^)]+)\\)")

// Each promise in docs/promises.md names a test that exists and compares something. A promise is a
// row of a table or a bullet, and its links stand in it.
func TestPromisesHaveTests(t *testing.T) {
	t.Parallel()
	const folder = "../../docs"
	text := string(testenv.Must(os.ReadFile(filepath.Join(folder, "promises.md"))))
	all := promises(text)
	if len(all) == 0 {
		t.Fatal("docs/promises.md has no promise")
	}
	parsed := make(map[string]testFunctions) // by folder
	for _, promise := range all {
		links := promiseLink.FindAllStringSubmatch(promise, -1)
		if len(links) == 0 {
			t.Errorf("no test is named by the promise:\n%s", promise)
		}
		for _, link := range links {
			path := filepath.Join(folder, link[2])
			dir := filepath.Dir(path)
			if parsed[dir] == nil {
				parsed[dir] = parseTests(dir)
			}
			source, err := os.ReadFile(path)
			if err != nil {
				t.Error(err)
			} else if !strings.Contains(string(source), "func "+link[1]+"(") {
				t.Errorf("%s has no %s", link[2], link[1])
			} else if !parsed[dir].fails(link[1]) {
				t.Errorf("%s compares nothing", link[1])
			}
		}
	}
}

// promises returns the rows and bullets of a document. The first two lines of a table are its
// head.
func promises(text string) (all []string) {
	row, bullet := 0, false // the row of the table and whether the line continues a bullet
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "|") {
			row++
		} else {
			row = 0
		}
		switch {
		case row > 2 || strings.HasPrefix(line, "- "):
			all = append(all, line)
		case bullet && strings.HasPrefix(line, "  "):
			all[len(all)-1] += line
		}
		bullet = strings.HasPrefix(line, "- ") || bullet && strings.HasPrefix(line, "  ")
	}
	return all
}

// Tests that were emptied, wholly or but for what sets them up, are noticed.
func TestPromisesNoticeEmptiedTests(t *testing.T) {
	t.Parallel()
	const helpers = `package p
		func newThing(t *testing.T) *thing { t.Cleanup(func() { t.Errorf("left") }); if err != nil { t.Fatalf("set up: %v", err) } }
		func (f *thing) want(n int) { if f.n != n { f.t.Errorf("%d", f.n) } }
		func (f *thing) read() { if err != nil { f.t.Fatal(err) } }
		func testThing(t *testing.T) { newThing(t).want(1) }
		func loops(t *testing.T) { loops(t) }
		func TestIt(t *testing.T) {`
	for body, want := range map[string]bool{
		``: false,
		`t.Parallel(); f := newThing(t); f.read()`:              false,
		`return; newThing(t).want(1)`:                           false,
		`t.Skip("later"); newThing(t).want(1)`:                  false,
		`loops(t)`:                                              false,
		`defer newThing(t).want(1)`:                             false,
		`newThing(t).want(1)`:                                   true,
		`if x { t.Skip("not here") }; newThing(t).want(1)`:      true,
		`testenv.Each(t, testThing)`:                            true,
		`t.Run("a", func(t *testing.T) { t.Error("differs") })`: true,
		`testenv.Eventually(t, "it comes", there)`:              true,
	} {
		all := make(testFunctions)
		all.add(testenv.Must(parser.ParseFile(token.NewFileSet(), "", helpers+body+"}", parser.SkipObjectResolution)))
		if got := all.fails("TestIt"); got != want {
			t.Errorf("%s: can fail is %v", body, got)
		}
	}
}

// testFunctions has the bodies of a package's functions and methods of tests, by name.
type testFunctions map[string][]*ast.BlockStmt

// parseTests reads the tests of a folder, and the helpers of app/e2e/harness.
func parseTests(folder string) testFunctions {
	paths := append(testenv.Must(filepath.Glob(filepath.Join(folder, "*_test.go"))), testenv.Must(filepath.Glob("harness/*.go"))...)
	all := make(testFunctions)
	for _, path := range paths {
		all.add(testenv.Must(parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)))
	}
	return all
}

func (all testFunctions) add(file *ast.File) {
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			all[f.Name.Name] = append(all[f.Name.Name], f.Body)
		}
	}
}

// sets matches the names of functions that set something up, whose failures prove nothing.
var sets = regexp.MustCompile(`^(new|open|start|serve|with|must|New|Open|Start|Serve|With|Must)([A-Z]|$)`)

// fails reports whether a test reaches a comparison: a failure with a text of its own, or a wait for
// a condition. Failures with only an error, those of what sets the test up or clears it away, and
// those behind an unconditional return or skip don't count.
func (all testFunctions) fails(name string) bool { return all.reaches(name, make(map[string]bool)) }

func (all testFunctions) reaches(name string, seen map[string]bool) bool {
	if seen[name] {
		return false
	}
	seen[name] = true
	return slices.ContainsFunc(all[name], func(body *ast.BlockStmt) bool { return all.reachesFrom(body, seen) })
}

func (all testFunctions) reachesFrom(body ast.Node, seen map[string]bool) (found bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BlockStmt:
			if end := slices.IndexFunc(n.List, ends); end >= 0 {
				for _, statement := range n.List[:end] {
					found = found || all.reachesFrom(statement, seen)
				}
				return false
			}
		case *ast.DeferStmt:
			return false
		case *ast.CallExpr:
			called := calledName(n)
			if called == "Cleanup" {
				return false
			}
			found = found || compares(called, n.Args) || !sets.MatchString(called) && all.reaches(called, seen)
			for _, arg := range n.Args { // such as testenv.Each(t, testIncrements)
				if f, ok := arg.(*ast.Ident); ok && strings.HasPrefix(f.Name, "test") {
					found = found || all.reaches(f.Name, seen)
				}
			}
		}
		return !found
	})
	return found
}

// ends reports whether a block ends at a statement, whatever comes before it.
func ends(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.ReturnStmt:
		return len(s.Results) == 0
	case *ast.ExprStmt:
		call, ok := s.X.(*ast.CallExpr)
		return ok && slices.Contains([]string{"Skip", "Skipf", "SkipNow", "NotChecked"}, calledName(call))
	}
	return false
}

// compares reports whether a call fails a test with a text.
func compares(called string, args []ast.Expr) bool {
	switch called {
	case "Eventually":
		return true
	case "Error", "Errorf", "Fatal", "Fatalf":
		return slices.ContainsFunc(args, func(arg ast.Expr) bool {
			text, ok := arg.(*ast.BasicLit)
			return ok && text.Kind == token.STRING
		})
	}
	return false
}

// calledName returns the name of the function or method that is called.
func calledName(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}
