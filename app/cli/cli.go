// Package cli implements the command line, one file for each kind of command.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"stepboard/app"
	"stepboard/config"
	"stepboard/models"
)

// Exit statuses.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// program is one run of the command line.
type program struct {
	args           []string
	stdout, stderr io.Writer
	terminal       bool   // whether stderr is a terminal
	account        string // that has typed the command
	files          files
	// both allows a data folder beside settings of servers.
	both bool
	// app is the service of this process, if it runs a command of another one.
	app *app.App
	// started is set when a command's own work begins. Errors before that are
	// wrong usage.
	started bool
	file    string            // --config
	flags   map[string]string // the settings given as flags, by key
	// closeLog writes what the log has held back.
	closeLog func()
}

// Main runs the command line and returns the exit status: 0, 1 for a failure, 2
// for wrong usage. SIGINT and SIGTERM shut it down gracefully; a second signal
// ends the process at once.
func Main(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal has its default effect

	p := &program{
		args: args, stdout: stdout, stderr: stderr, terminal: isTerminal(stderr), account: currentAccount(), files: ownFiles{},
		flags: make(map[string]string), closeLog: func() {},
	}
	root := newRoot()
	root.AddCommand(
		p.demoCommand(),
		p.withSettings(p.serveCommand()),
		p.withSettings(p.healthCommand()),
		p.withSettings(p.restoreCommand()),
		p.withSettings(p.backupsCommand()),
		p.migrateCommand(),
		p.withSettings(p.moveCommand()),
		p.withSettings(p.tokenCommand()),
		p.configCommand(),
		p.openAPICommand(),
		p.versionCommand(),
		aboutSettings(),
	)
	root.AddCommand(p.storesCommands()...)
	return p.execute(ctx, root)
}

// aboutSettings returns the topic of help about settings, which are flags of most commands.
func aboutSettings() *cobra.Command {
	var text strings.Builder
	text.WriteString("Each setting is a flag of the commands that take --config, a variable such as STEPBOARD_HTTP__ADDR and a key of the settings file.\n")
	for _, s := range config.Settings() {
		fmt.Fprintf(&text, "\n  --%s\n      %s\n", s.Key, described(s))
	}
	return &cobra.Command{Use: "settings", Short: "The settings, which are flags, too", Long: text.String()}
}

// described returns what a setting does, with its default.
func described(s config.Setting) string {
	if s.Default != "" && s.Default != "0" && s.Default != "false" {
		return s.Doc + " (default " + s.Default + ")"
	}
	return s.Doc
}

// execute runs the command line and returns the exit status.
func (p *program) execute(ctx context.Context, root *cobra.Command) int {
	refuseArguments(root)
	root.SetArgs(p.args)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	err := root.ExecuteContext(ctx)
	p.closeLog()
	var elsewhere exitStatus
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &elsewhere):
		return int(elsewhere)
	case !p.started:
		fmt.Fprintf(p.stderr, "stepboard: %s (see --help)\n", oneLine(err))
		return exitUsage
	default:
		return p.fail(err)
	}
}

// refuseArguments lets a command and its subcommands take no arguments but those that they name.
func refuseArguments(cmd *cobra.Command) {
	if cmd.Args == nil {
		cmd.Args = cobra.NoArgs
	}
	for _, sub := range cmd.Commands() {
		refuseArguments(sub)
	}
}

// fail prints why a command has failed and returns its exit status.
func (p *program) fail(err error) int {
	fmt.Fprintf(p.stderr, "stepboard: %s\n", oneLine(err))
	return exitFailed
}

// newRoot returns the command line without commands.
func newRoot() *cobra.Command {
	return &cobra.Command{
		Use:           "stepboard",
		Short:         "A friends-leaderboard backend",
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(*cobra.Command, []string) error {
			return errors.New("name a command: demo, serve, health, migrate, move, archive, import, rebuild, dead-letters, correct, reviews, holds, upload-address, webhooks, cursors, erasures, backup, backups, restore, token, config, openapi or version")
		},
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
}

// storesCommands returns the commands that work on the stores. On a data folder that a process
// serves, they run in that process.
func (p *program) storesCommands() []*cobra.Command {
	return []*cobra.Command{
		p.withSettings(p.archiveCommand()),
		p.importCommand(),
		p.withSettings(p.rebuildCommand()),
		p.deadLettersCommand(),
		p.reviewsCommand(),
		p.holdsCommand(),
		p.correctCommand(),
		p.uploadAddressCommand(),
		p.withSettings(p.signInCodeCommand()),
		p.operatorsCommand(),
		p.sessionsCommand(),
		p.webhooksCommand(),
		p.cursorsCommand(),
		p.erasuresCommand(),
		p.withSettings(p.backupCommand()),
	}
}

// run adapts a command's work to cobra and marks the usage as right.
func (p *program) run(work func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		p.started = true
		return work(cmd.Context(), args)
	}
}

// onApp adapts a command's work on the service that runOnApp gives it to cobra.
func (p *program) onApp(work func(ctx context.Context, a *app.App, args []string) error) func(*cobra.Command, []string) error {
	return p.run(func(ctx context.Context, args []string) error {
		return p.runOnApp(ctx, func(a *app.App) error { return work(ctx, a, args) })
	})
}

// group returns a command that only has subcommands, which take settings.
func (p *program) group(name, short string, subcommands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: short, RunE: needsSubcommand}
	for _, sub := range subcommands {
		cmd.AddCommand(p.withSettings(sub))
	}
	return cmd
}

// withSettings gives a command --config and a flag for each setting, which its help does not list.
func (p *program) withSettings(cmd *cobra.Command) *cobra.Command {
	flags := cmd.Flags()
	flags.StringVar(&p.file, "config", "", "settings file (default "+config.DefaultFile+", if present)")
	var data string
	flags.StringVar(&data, "data", "", "short for --data.dir")
	for _, s := range config.Settings() {
		flags.String(s.Key, "", described(s))
		flag := flags.Lookup(s.Key)
		if flag.Hidden = true; s.Switch {
			flag.NoOptDefVal = "true"
		}
	}
	cmd.Long = cmp.Or(cmd.Long, cmd.Short) + "\n\nEach setting is a flag, too: stepboard help settings"
	// A flag that was given counts even if its value is empty.
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		for _, s := range config.Settings() {
			if f := cmd.Flags().Lookup(s.Key); f.Changed {
				p.flags[s.Key] = f.Value.String()
			}
		}
		if data != "" {
			p.flags["data.dir"] = data
		}
		return run(cmd, args)
	}
	return cmd
}

// load reads and checks the settings of this run. require checks what the command needs of them; nil for nothing.
func (p *program) load(require func(*config.Config) error) (config.Config, error) {
	cfg, err := config.Load(config.Sources{File: p.file, Env: os.Environ(), Flags: p.flags, Both: p.both})
	if err == nil {
		err = app.CheckSettings(&cfg)
	}
	if err == nil && require != nil {
		err = require(&cfg)
	}
	return cfg, err
}

// onSettings adapts a command's work with the settings, as load returns them, to cobra.
func (p *program) onSettings(
	require func(*config.Config) error, work func(ctx context.Context, cfg config.Config, args []string) error,
) func(*cobra.Command, []string) error {
	return p.run(func(ctx context.Context, args []string) error {
		cfg, err := p.load(require)
		if err != nil {
			return err
		}
		return work(ctx, cfg, args)
	})
}

// needsSubcommand returns the error of a command that was called without one of its
// subcommands.
func needsSubcommand(cmd *cobra.Command, _ []string) error {
	var names []string
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	return fmt.Errorf("%s needs one of %s", cmd.Name(), strings.Join(names, ", "))
}

// oneLine returns the text of an error on one line. Joined errors, and errors
// with indented lines, have several.
func oneLine(err error) string {
	var text strings.Builder
	for line := range strings.Lines(err.Error()) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
			continue
		case strings.HasSuffix(text.String(), ":"):
			text.WriteByte(' ')
		case text.Len() > 0:
			text.WriteString("; ")
		}
		text.WriteString(line)
	}
	return text.String()
}

// publicMessage returns the text of an error without its code.
func publicMessage(err error) string {
	var known *models.Error
	if errors.As(err, &known) {
		return known.Message
	}
	return err.Error()
}

// progressLine is a line on a terminal that is drawn again and again. If the
// output is not a terminal, it draws nothing.
type progressLine struct {
	out io.Writer // nil if it is not a terminal
}

// progressLine returns a line on standard error.
func (p *program) progressLine() progressLine {
	if p.terminal {
		return progressLine{out: p.stderr}
	}
	return progressLine{}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// visible reports whether the line is drawn at all.
func (p progressLine) visible() bool { return p.out != nil }

// Show draws the line anew.
func (p progressLine) Show(format string, args ...any) {
	if p.visible() {
		fmt.Fprintf(p.out, "\r"+format+"\x1b[K", args...)
	}
}

// Clear erases the line.
func (p progressLine) Clear() { p.Show("") }
