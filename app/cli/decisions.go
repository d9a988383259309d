package cli

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"stepboard/app"
	"stepboard/models"
	"stepboard/services/boards/corrections"
	"stepboard/services/boards/holds"
	"stepboard/services/operations/audit"
	"stepboard/services/operations/reviews"
)

// audited does something that an operator decides, and stores it in the audit log. A dry run, for
// which do decides nothing, is not stored.
func audited[T any](ctx context.Context, a *app.App, e audit.Entry, dryRun bool, do func() (T, error)) (T, error) {
	if dryRun {
		return do()
	}
	finish, err := a.Audit.Begin(ctx, e)
	if err != nil {
		var none T
		return none, err
	}
	result, err := do()
	finish(err)
	return result, err
}

// decide does something that an operator decides, stores it in the audit log, and prints the result
// or returns the error in words for people.
func decide[T any](ctx context.Context, a *app.App, e audit.Entry, dryRun bool, do func() (T, error), show func(T)) error {
	result, err := audited(ctx, a, e, dryRun, do)
	if err != nil {
		return errors.New(publicMessage(err))
	}
	show(result)
	return nil
}

// decideOn is decide about the row whose id an argument is; what names the rows, such as "review".
func decideOn[T any](
	ctx context.Context, p *program, text, what string, e audit.Entry, dryRun bool, do func(a *app.App, id int64) (T, error), show func(T),
) error {
	id, err := parseID(text, what)
	if err != nil {
		return err
	}
	e.Target = strconv.FormatInt(id, 10)
	return p.runOnApp(ctx, func(a *app.App) error {
		return decide(ctx, a, e, dryRun, func() (T, error) { return do(a, id) }, show)
	})
}

// addActorFlag adds the flag --actor to a command that may run on a schedule, where nobody
// names an operator: it defaults to the account that runs the command.
func (p *program) addActorFlag(cmd *cobra.Command, actor *string) {
	cmd.Flags().StringVar(actor, "actor", p.account, "who does this, for the audit log")
}

// currentAccount returns the name of the account that runs this process.
func currentAccount() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return "unknown account"
}

func (p *program) correctCommand() *cobra.Command {
	var points int64
	set := p.correctionCommand(models.CorrectionSet, &points, "Show a worse score of a user on one day, or in an event",
		"the day, YYYY-MM-DD; none on the board of an event")
	set.Flags().Int64Var(&points, "score", 0, "the score to show, which ranks no better than the user's")
	requireFlags(set, "score")
	exclude := p.correctionCommand(models.CorrectionExclude, nil, "Exclude a user from the rankings of one day, of all days from now on, or of a board without days",
		"the day, YYYY-MM-DD; without it the exclusion holds from today until it is lifted")
	return p.group("correct", "Change a score, exclude a user from rankings, or lift that", set, exclude, p.liftCommand(), p.listCorrectionsCommand())
}

// correctionCommand returns the command that makes a correction of a kind. score is what it sets; nil
// for none. dayUsage describes --date.
func (p *program) correctionCommand(kind models.CorrectionKind, score *int64, short, dayUsage string) *cobra.Command {
	r := corrections.Request{Kind: kind, Score: score}
	var date string
	cmd := &cobra.Command{
		Use:   string(kind),
		Short: short,
		RunE: p.run(func(ctx context.Context, _ []string) error {
			if date != "" {
				day, err := models.ParseDate(date)
				if err != nil {
					return fmt.Errorf("--date %s: %w", date, err)
				}
				r.Date = &day
			}
			return p.makeCorrection(ctx, r)
		}),
	}
	cmd.Flags().StringVar(&r.Board, "board", "", "the board")
	cmd.Flags().StringVar((*string)(&r.User), "user", "", "the user")
	cmd.Flags().StringVar(&date, "date", "", dayUsage)
	cmd.Flags().StringVar(&r.Message, "message", "", "what the user is told, at most 200 characters")
	addDecisionFlags(cmd, &r.Reason, &r.Actor, &r.DryRun)
	requireFlags(cmd, "board", "user")
	return cmd
}

// addDecisionFlags adds the flags of every command that makes or lifts a correction.
func addDecisionFlags(cmd *cobra.Command, reason, actor *string, dryRun *bool) {
	cmd.Flags().StringVar(reason, "reason", "", "why, for other operators and the user's own export")
	cmd.Flags().StringVar(actor, "actor", "", "who decides this")
	cmd.Flags().BoolVar(dryRun, "dry-run", false, "change nothing, and only print what would change")
	requireFlags(cmd, "reason", "actor")
}

// ofUser adds the flag --user to a command about a user, and returns it.
func ofUser(user *string, cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVar(user, "user", "", "the user")
	requireFlags(cmd, "user")
	return cmd
}

func requireFlags(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // the flag does not exist
		}
	}
}

func (p *program) makeCorrection(ctx context.Context, r corrections.Request) error {
	return p.runOnApp(ctx, func(a *app.App) error {
		e := audit.Entry{User: r.User, AuditEntry: models.AuditEntry{
			Actor: r.Actor, Action: "correct " + string(r.Kind), Board: r.Board, Reason: r.Reason,
		}}
		if r.Date != nil {
			e.Bucket = r.Date.String()
		}
		return decide(ctx, a, e, r.DryRun, func() (corrections.Entry, error) { return a.Corrections.Create(ctx, r) }, p.printCorrection)
	})
}

func (p *program) liftCommand() *cobra.Command {
	var l corrections.Lifting
	cmd := &cobra.Command{
		Use:   "lift ID",
		Short: "End a correction, so that what was reported counts again",
		Args:  cobra.ExactArgs(1),
		RunE: p.run(func(ctx context.Context, args []string) error {
			entry := audit.Entry{AuditEntry: models.AuditEntry{Actor: l.Actor, Action: "correct lift", Reason: l.Reason}}
			return decideOn(ctx, p, args[0], "correction", entry, l.DryRun, func(a *app.App, id int64) (corrections.Entry, error) {
				l.ID = id
				return a.Corrections.Lift(ctx, l)
			}, p.printCorrection)
		}),
	}
	addDecisionFlags(cmd, &l.Reason, &l.Actor, &l.DryRun)
	return cmd
}

func (p *program) listCorrectionsCommand() *cobra.Command {
	q := corrections.Query{Limit: listPage}
	cmd := listCommand(p, "List corrections, newest first", &q.Before,
		func(ctx context.Context, a *app.App) ([]corrections.Entry, error) { return a.Corrections.List(ctx, q) },
		p.printCorrection)
	cmd.Flags().StringVar(&q.Board, "board", "", "only those on this board")
	cmd.Flags().StringVar((*string)(&q.User), "user", "", "only those of this user")
	cmd.Flags().BoolVar(&q.Active, "active", false, "only those that hold")
	return cmd
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
	fields := []any{
		id, c.Board, days, c.UserID, what, "before=" + before, state,
		fmt.Sprintf("%s by %s: %s", c.CreatedAt.UTC().Format(time.RFC3339), c.Actor, c.Reason),
	}
	if c.Message != "" {
		fields = append(fields, "message: "+c.Message)
	}
	if c.LiftedAt != nil {
		fields = append(fields, fmt.Sprintf("lifted %s by %s: %s", c.LiftedAt.UTC().Format(time.RFC3339), c.LiftedBy, c.LiftReason))
	}
	p.row(fields...)
}

func (p *program) holdsCommand() *cobra.Command {
	q := holds.Query{Limit: listPage}
	list := listCommand(p, "List held totals, newest first", &q.Before,
		func(ctx context.Context, a *app.App) ([]models.Hold, error) { return a.Holds.List(ctx, q) },
		p.printHold)
	list.Flags().StringVar((*string)(&q.State), "state", string(models.HoldOpen), "those that are open, rejected or released")
	list.Flags().StringVar(&q.Board, "board", "", "those on this board only")
	list.Flags().StringVar((*string)(&q.User), "user", "", "those of this user only")
	return p.group("holds", "List, release or reject totals above a board's hold_above", list,
		p.holdDecisionCommand("release", "Let a held total count, and later ones of the user's day", models.HoldReleased),
		p.holdDecisionCommand("reject", "Keep a held total out, and later ones of the user's day", models.HoldRejected))
}

// holdDecisionCommand returns the command that puts a hold into a state.
func (p *program) holdDecisionCommand(name, short string, state models.HoldState) *cobra.Command {
	d := holds.Decision{State: state}
	cmd := &cobra.Command{
		Use:   name + " ID",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: p.run(func(ctx context.Context, args []string) error {
			entry := audit.Entry{AuditEntry: models.AuditEntry{Actor: string(d.By), Action: "holds " + name, Reason: d.Reason}}
			return decideOn(ctx, p, args[0], "held total", entry, d.DryRun, func(a *app.App, id int64) (models.Hold, error) {
				d.ID = id
				return a.Holds.Decide(ctx, d)
			}, p.printHold)
		}),
	}
	cmd.Flags().Int64Var(&d.Score, "score", 0, "the total that you have looked at")
	cmd.Flags().StringVar(&d.Message, "message", "", "what the user is told")
	addDecisionFlags(cmd, &d.Reason, (*string)(&d.By), &d.DryRun)
	requireFlags(cmd, "score")
	return cmd
}

// printHold prints a held total as one line.
func (p *program) printHold(h models.Hold) {
	counting := "-"
	if h.Counting != nil {
		counting = strconv.FormatInt(*h.Counting, 10)
	}
	p.row(h.ID, h.Board, h.Day, h.User, h.Score, h.ReachedAt.UTC().Format(time.RFC3339), counting, h.State)
}

func (p *program) reviewsCommand() *cobra.Command {
	q := reviews.Query{Limit: listPage}
	list := listCommand(p, "List scores that nobody has looked at, newest first", &q.Before,
		func(ctx context.Context, a *app.App) ([]models.Review, error) { return a.Reviews.List(ctx, q) },
		func(r models.Review) {
			p.row(r.ID, r.Board, r.Bucket, r.User, r.Score, r.ReachedAt.UTC().Format(time.RFC3339))
		})
	list.Flags().StringVar(&q.Board, "board", "", "scores on this board only")
	var d reviews.Dismissal
	var actor string
	dismiss := &cobra.Command{
		Use:   "dismiss ID",
		Short: "Take a score off the list until it rises further",
		Args:  cobra.ExactArgs(1),
		RunE: p.run(func(ctx context.Context, args []string) (err error) {
			if d.By, err = models.ParseUserID(actor); err != nil {
				return fmt.Errorf("--actor: say who you are; %w", err)
			}
			entry := audit.Entry{AuditEntry: models.AuditEntry{Actor: actor, Action: "reviews dismiss", Reason: d.Reason}}
			return decideOn(ctx, p, args[0], "review", entry, false, func(a *app.App, id int64) (models.Review, error) {
				d.ID = id
				return a.Reviews.Dismiss(ctx, d)
			}, func(r models.Review) {
				fmt.Fprintf(p.stdout, "dismissed by %s at %s\n", r.DismissedBy, r.DismissedAt.UTC().Format(time.RFC3339))
			})
		}),
	}
	dismiss.Flags().StringVar(&actor, "actor", "", "who has looked at the score (required)")
	dismiss.Flags().StringVar(&d.Reason, "reason", "", "why the score is fine")
	return p.group("reviews", "List or dismiss scores above a board's review_above", list, dismiss)
}
