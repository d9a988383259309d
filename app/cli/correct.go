package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"stepboard/app"
	"stepboard/models"
	"stepboard/services/boards/corrections"
	"stepboard/services/operations/audit"
)

func (p *program) correctCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "correct", Short: "Lower a score, exclude a user from rankings, or lift that", Args: cobra.NoArgs, RunE: needsSubcommand,
	}
	cmd.AddCommand(p.setCommand(), p.excludeCommand(), p.liftCommand(), p.listCorrectionsCommand())
	return cmd
}

// correctionFlags are the flags of commands that make a correction.
type correctionFlags struct {
	board, date, user, reason, actor string
	dryRun                           bool
}

func (f *correctionFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.board, "board", "", "the board")
	cmd.Flags().StringVar(&f.user, "user", "", "the user")
	addDecisionFlags(cmd, &f.reason, &f.actor, &f.dryRun)
	requireFlags(cmd, "board", "user")
}

// addDecisionFlags adds the flags of every command that makes or lifts a correction.
func addDecisionFlags(cmd *cobra.Command, reason, actor *string, dryRun *bool) {
	cmd.Flags().StringVar(reason, "reason", "", "why, for other operators")
	cmd.Flags().StringVar(actor, "actor", "", "who decides this")
	cmd.Flags().BoolVar(dryRun, "dry-run", false, "change nothing, and only print what would change")
	requireFlags(cmd, "reason", "actor")
}

func requireFlags(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // the flag does not exist
		}
	}
}

// request returns the request for a correction of a kind.
func (f *correctionFlags) request(kind models.CorrectionKind) (corrections.Request, error) {
	r := corrections.Request{
		Board: f.board, User: models.UserID(f.user), Kind: kind, Reason: f.reason, Actor: f.actor, DryRun: f.dryRun,
	}
	if f.date == "" {
		return r, nil
	}
	day, err := models.ParseDate(f.date)
	if err != nil {
		return r, fmt.Errorf("--date %s: %w", f.date, err)
	}
	r.Date = &day
	return r, nil
}

func (p *program) setCommand() *cobra.Command {
	var f correctionFlags
	var points int64
	cmd := &cobra.Command{
		Use:   "set",
		Short: "Show a lower score of a user on one day, or in an event",
		Args:  cobra.NoArgs,
		RunE: p.run(func(ctx context.Context, _ []string) error {
			r, err := f.request(models.CorrectionSet)
			if err != nil {
				return err
			}
			r.Score = &points
			return p.makeCorrection(ctx, r)
		}),
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.date, "date", "", "the day, YYYY-MM-DD; none on the board of an event")
	cmd.Flags().Int64Var(&points, "score", 0, "the score to show, at most the user's")
	requireFlags(cmd, "score")
	return p.withSettings(cmd)
}

func (p *program) excludeCommand() *cobra.Command {
	var f correctionFlags
	cmd := &cobra.Command{
		Use:   "exclude",
		Short: "Exclude a user from the rankings of one day, of all days from now on, or of a board without days",
		Args:  cobra.NoArgs,
		RunE: p.run(func(ctx context.Context, _ []string) error {
			r, err := f.request(models.CorrectionExclude)
			if err != nil {
				return err
			}
			return p.makeCorrection(ctx, r)
		}),
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.date, "date", "", "the day, YYYY-MM-DD; without it the exclusion holds from today until it is lifted")
	return p.withSettings(cmd)
}

func (p *program) makeCorrection(ctx context.Context, r corrections.Request) error {
	return p.runOnApp(ctx, func(a *app.App) error {
		e := audit.Entry{User: r.User, AuditEntry: models.AuditEntry{
			Actor: r.Actor, Action: "correct " + string(r.Kind), Board: r.Board, Reason: r.Reason,
		}}
		if r.Date != nil {
			e.Bucket = r.Date.String()
		}
		return p.corrected(audited(ctx, a, e, r.DryRun, func() (corrections.Entry, error) { return a.Corrections.Create(ctx, r) }))
	})
}

func (p *program) liftCommand() *cobra.Command {
	var l corrections.Lifting
	cmd := &cobra.Command{
		Use:   "lift ID",
		Short: "End a correction, so that what was reported counts again",
		Args:  cobra.ExactArgs(1),
		RunE: p.run(func(ctx context.Context, args []string) error {
			var err error
			if l.ID, err = parseID(args[0], "correction"); err != nil {
				return err
			}
			return p.runOnApp(ctx, func(a *app.App) error {
				entry := models.AuditEntry{Actor: l.Actor, Action: "correct lift", Target: args[0], Reason: l.Reason}
				return p.corrected(audited(ctx, a, audit.Entry{AuditEntry: entry}, l.DryRun, func() (corrections.Entry, error) {
					return a.Corrections.Lift(ctx, l)
				}))
			})
		}),
	}
	addDecisionFlags(cmd, &l.Reason, &l.Actor, &l.DryRun)
	return p.withSettings(cmd)
}

func (p *program) listCorrectionsCommand() *cobra.Command {
	var q corrections.Query
	var user string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List corrections, newest first",
		Args:  cobra.NoArgs,
		RunE: p.run(func(ctx context.Context, _ []string) error {
			q.User, q.Limit = models.UserID(user), listPage
			return p.runOnApp(ctx, func(a *app.App) error { return p.listCorrections(ctx, a, q) })
		}),
	}
	cmd.Flags().StringVar(&q.Board, "board", "", "only those on this board")
	cmd.Flags().StringVar(&user, "user", "", "only those of this user")
	cmd.Flags().BoolVar(&q.Active, "active", false, "only those that hold")
	return p.withSettings(cmd)
}

func (p *program) listCorrections(ctx context.Context, a *app.App, q corrections.Query) error {
	read := func(before int64) ([]corrections.Entry, error) {
		q.Before = before
		return a.Corrections.List(ctx, q)
	}
	return eachNewestFirst(read, func(c corrections.Entry) int64 {
		p.printCorrection(c)
		return c.ID
	})
}

// corrected prints a correction that was made or lifted, or returns the error in words for
// people.
func (p *program) corrected(c corrections.Entry, err error) error {
	if err != nil {
		return errors.New(publicMessage(err))
	}
	p.printCorrection(c)
	return nil
}

// printCorrection prints a correction as one line.
func (p *program) printCorrection(c corrections.Entry) {
	id, what, state := "-", string(c.Kind), "applied"
	if c.ID != 0 {
		id = strconv.FormatInt(c.ID, 10)
	}
	if c.Score != nil {
		what += " " + strconv.FormatInt(*c.Score, 10)
	}
	days := "-"
	if c.Days {
		days = c.Day.String()
	}
	if c.Bucket == nil {
		days += " and later"
	}
	before := "none"
	if c.BeforeScore != nil {
		before = strconv.FormatInt(*c.BeforeScore, 10)
	}
	if c.Pending {
		state = "pending"
	}
	fmt.Fprintf(p.stdout, "%s\t%s\t%s\t%s\t%s\tbefore=%s\t%s\t%s by %s: %s", id, c.Board, days, c.UserID, what, before, state,
		c.CreatedAt.UTC().Format(time.RFC3339), c.Actor, c.Reason)
	if c.LiftedAt != nil {
		fmt.Fprintf(p.stdout, "\tlifted %s by %s: %s", c.LiftedAt.UTC().Format(time.RFC3339), c.LiftedBy, c.LiftReason)
	}
	fmt.Fprintln(p.stdout)
}
