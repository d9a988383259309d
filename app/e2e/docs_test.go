package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"stepboard/internal/testenv"
)

// TestDocs runs the commands of a document from top to bottom in one shell,
// as a reader would type them. Commands are the blocks that are indented by four
// spaces.
//
// Every line of a block is a command until a line begins with a prompt (`$ `).
// From there on only lines with a prompt are commands, and the lines below each
// are its output. The real output must have the same text and JSON, except for
// times, numbers, names, cursors, durations and what `…` replaces. A line that
// ends in `\` continues in the next one. So does SQL, which is run by psql, until
// its semicolon.
//
// Commands run unchanged, except for what reader.adapt changes.

// notCommands lists blocks that show something else, by their first line.
var notCommands = []struct{ doc, line, why string }{
	{"README.md", `{"rank":1,"user_id":"1002","score":12000,`, "lines of an answer that is shown whole in Running it"},
	{"docs/guide.md", "https://stepboard.example.com/#token=", "addresses; TestTokenInTheAddress and TestLogin open some"},
	{"docs/guide.md", "webView.evaluateJavascript(", "Kotlin; TestTokenInTheAddress runs the JavaScript in it"},
	{"docs/guide.md", "let typed = HKQuery.predicateForObjects(", "Swift for HealthKit"},
	{"docs/guide.md", "val day = TimeRangeFilter.between(", "Kotlin for Health Connect"},
	{"docs/operations.md", "location /", "settings of nginx"},
	{"docs/operations.md", "data: {dir: /var/lib/stepboard}", "settings"},
	{"docs/operations.md", "[Service]", "settings of systemd"},
	{"docs/operations.md", "stepboard backups --from s3://", "TestPractisedRestore runs them, with copies that are there"},
	{"docs/architecture.md", "composite = points × 2^T + (2^T - 1 - t)", "a formula"},
}

// replacements lists commands that can't run in a test, and what runs instead.
var replacements = []struct{ doc, command, instead, why string }{
	{"README.md", "make test", "make --dry-run test", "it runs this test"},
	{"README.md", "docker compose up --detach --build", "", "there may be no Docker; TestComposeFiles reads the files"},
	{"CONTRIBUTING.md", "make check", "make --dry-run check", "it takes minutes"},
	{"CONTRIBUTING.md", "scripts/with-servers go test -race ./services/people/friends", "scripts/with-servers go list ./services/people/friends", "make test does"},
	{"CONTRIBUTING.md", "make soak", "make --dry-run soak", "it takes hours"},
	{"CONTRIBUTING.md", "make bench", "make --dry-run bench", "it takes minutes and all cores"},
	{"CONTRIBUTING.md", "make lint", "make --dry-run lint", "it takes minutes"},
	{"docs/client.md", "npm ci", "", "make test does"},
	{"docs/client.md", "npm run build", "", "the client's own tests do, elsewhere"},
	{"docs/client.md", "npm pack", "", "the client's own tests pack and install it"},
	{"docs/client.md", "npm install ../stepboard/clients/typescript/stepboard-0.1.0.tgz", "", "it is for another folder"},
	{"docs/performance.md", "make bench", "make --dry-run bench", "it takes minutes and all cores"},
	{"docs/performance.md", "scripts/with-servers go run ./bench -board 50000 -rounds 1 -time 1s", "go run ./bench -board 50000 -rounds 1 -time 1s -h", "it takes minutes and all cores"},
}

// operationsSetup prepares the state that docs/operations.md expects: archived
// days, a detached month, and a file that corrects a day.
const operationsSetup = `
stepboard migrate up
printf '%s\n' user_id,date,steps 1,2016-04-12,7000 1,2025-01-20,8000 1,2026-11-16,9000 1,2026-11-20,500 >steps.csv
printf '%s\n' user_id,date,steps 1,2026-11-16,6000 >corrected.csv
stepboard import steps steps.csv
ALTER TABLE archived_scores DETACH PARTITION archived_scores_201604;
`

func TestDocs(t *testing.T) {
	t.Parallel()
	used := make(map[string]bool)
	docs := append([]string{"../../README.md", "../../CONTRIBUTING.md"}, testenv.Must(filepath.Glob("../../docs/*.md"))...)
	typed := append(testenv.OtherForms(t, docs), "../../README.md", "../../docs/guide.md")
	for _, path := range docs {
		doc := strings.TrimPrefix(path, "../../")
		text := string(testenv.Must(os.ReadFile(path)))
		commands := commandsOf(doc, text, used)
		t.Run(doc, func(t *testing.T) {
			t.Parallel()
			checkMentioned(t, doc, text)
			if len(commands) == 0 || !slices.Contains(typed, path) {
				return
			}
			if err := withinAnHour(time.Now, func() error { return newReader(t, doc).run(commands) }); err != nil {
				t.Error(err)
			}
		})
	}
	for _, n := range notCommands {
		if !used[n.doc+n.line] {
			t.Errorf("%s has no block %s any more", n.doc, n.line)
		}
	}
	for _, n := range replacements {
		if !used[n.doc+n.command] {
			t.Errorf("%s has no command %s any more", n.doc, n.command)
		}
	}
}

// commandsOf returns a document's commands as they are run, and records in used
// which entries of the lists above it needed.
func commandsOf(doc, text string, used map[string]bool) []docCommand {
	var commands []docCommand
blocks:
	for _, b := range indented(text) {
		for _, n := range notCommands {
			if n.doc == doc && strings.HasPrefix(b.lines[0], n.line) {
				used[doc+n.line] = true
				continue blocks
			}
		}
		commands = append(commands, b.commands()...)
	}
	for i, c := range commands {
		for _, n := range replacements {
			if n.doc == doc && n.command == c.text {
				used[doc+n.command] = true
				commands[i].text = n.instead
			}
		}
	}
	return slices.DeleteFunc(commands, func(c docCommand) bool { return c.text == "" })
}

// codeBlock is an indented block of a document.
type codeBlock struct {
	number int // of its first line
	lines  []string
}

// indented returns the blocks that are indented by four spaces or more.
func indented(text string) []codeBlock {
	var blocks []codeBlock
	inside, blank := false, true
	for i, line := range strings.Split(text, "\n") {
		code, is := strings.CutPrefix(line, "    ")
		switch {
		case is && (inside || blank):
			if !inside {
				blocks = append(blocks, codeBlock{number: i + 1})
			}
			inside = true
			b := &blocks[len(blocks)-1]
			b.lines = append(b.lines, code)
		case line == "" && inside:
			b := &blocks[len(blocks)-1]
			b.lines = append(b.lines, "")
		case line != "":
			inside = false
		}
		blank = line == ""
	}
	return blocks
}

// docCommand is a command and its output; nil if the document does not show it.
type docCommand struct {
	number int
	text   string
	output *string
}

// incomplete reports whether the command continues in the next line.
func (c docCommand) incomplete() bool {
	return strings.HasSuffix(c.text, `\`) || c.isSQL() && !strings.HasSuffix(c.text, ";")
}

func (c docCommand) isSQL() bool {
	return regexp.MustCompile(`^(ALTER|DELETE|SELECT) `).MatchString(c.text)
}

// commands returns the block's commands.
func (b codeBlock) commands() []docCommand {
	var all []docCommand
	for i, line := range b.lines {
		command, prompted := strings.CutPrefix(line, "$ ")
		last := len(all) - 1
		switch {
		case last >= 0 && all[last].incomplete():
			all[last].text += "\n" + line
		case prompted:
			all = append(all, docCommand{number: b.number + i, text: command, output: new(string)})
		case last >= 0 && all[last].output != nil:
			*all[last].output += line + "\n"
		case strings.TrimSpace(line) != "":
			all = append(all, docCommand{number: b.number + i, text: strings.TrimSpace(line)})
		}
	}
	return all
}

// checkMentioned expects every command that a text mentions to exist.
func checkMentioned(t *testing.T, doc, text string) {
	t.Helper()
	for _, m := range regexp.MustCompile("`(stepboard|make)\\s([^`]+)`").FindAllStringSubmatch(text, -1) {
		words := strings.Fields(m[2])
		if m[1] == "make" {
			cmd := exec.CommandContext(t.Context(), "make", append([]string{"--dry-run", "-C", "../.."}, words...)...)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s mentions make %s: %v: %s", doc, m[2], err, out)
			}
			continue
		}
		help, complaint, status := testenv.Run(t, append(words, "--help")...)
		name := words[:1]
		for _, w := range words[1:] {
			if w != strings.ToLower(w) || strings.HasPrefix(w, "-") {
				break
			}
			name = append(name, w)
		}
		if status != 0 || !strings.Contains(help, "\n  stepboard "+strings.Join(name, " ")) {
			t.Errorf("%s mentions stepboard %s: status %d: %s%s", doc, m[2], status, help, complaint)
		}
	}
}
