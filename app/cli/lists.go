package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"stepboard/app"
	"stepboard/models"
	"stepboard/services/boards/ingest"
	"stepboard/services/operations/audit"
	"stepboard/services/platform/outcomes"
)

// listPage is how many rows of a list are read at a time.
const listPage = 500

// listRow is a row of a list that is ordered by descending id.
type listRow interface{ Cursor() models.Cursor }

// listCommand returns the command that prints rows, newest first. read returns up to listPage rows before
// the id that before points to, 0 for the newest. It adds no flags.
func listCommand[Row listRow](
	p *program, short string, before *int64, read func(context.Context, *app.App) ([]Row, error), show func(Row),
) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: short,
		RunE: p.onApp(func(ctx context.Context, a *app.App, _ []string) error {
			for {
				page, err := read(ctx, a)
				if err != nil {
					return err
				}
				for _, row := range page {
					show(row)
					*before = row.Cursor().Key
				}
				if len(page) < listPage {
					return nil
				}
			}
		}),
	}
}

// row prints fields as a line, separated by tabs. Text of others neither ends the line or a field nor controls the
// terminal: what is not printable in it is shown as in Go.
func (p *program) row(fields ...any) {
	for i, field := range fields {
		if i > 0 {
			fmt.Fprint(p.stdout, "\t")
		}
		text := fmt.Sprint(field)
		if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) || !utf8.ValidString(text) {
			quoted := strconv.Quote(text)
			text = quoted[1 : len(quoted)-1]
		}
		fmt.Fprint(p.stdout, text)
	}
	fmt.Fprintln(p.stdout)
}

// parseID returns the id that an argument holds; what names the rows, such as "review".
func parseID(text, what string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 {
		return 0, fmt.Errorf("%q is no id of a %s", text, what)
	}
	return id, nil
}

func (p *program) deadLettersCommand() *cobra.Command {
	q := ingest.DeadLetterQuery{Limit: listPage}
	list := listCommand(p, "List dead letters, newest first", &q.Before,
		func(ctx context.Context, a *app.App) ([]models.DeadLetter, error) { return a.DeadLetters.List(ctx, q) },
		func(l models.DeadLetter) {
			p.row(l.ID, l.FailedAt.UTC().Format(time.RFC3339), l.Position, l.Reason, messageOf(l))
		})
	addDeadLetterFilter(list, &q)
	return p.group("dead-letters", "List, replay or delete updates that could not be applied", list,
		p.handleDeadLetters(deadLetterAction{
			verb: "replay", short: "Apply the update of a dead letter, or those of a filter, then delete the dead letter",
			one: (*ingest.DeadLetters).Replay, selected: (*ingest.DeadLetters).ReplaySelected,
		}),
		p.handleDeadLetters(deadLetterAction{
			verb: "delete", short: "Delete a dead letter, or those of a filter, without applying the update",
			one: (*ingest.DeadLetters).Delete, selected: (*ingest.DeadLetters).DeleteSelected,
		}),
	)
}

// addDeadLetterFilter adds the flags that select dead letters.
func addDeadLetterFilter(cmd *cobra.Command, filter *ingest.DeadLetterQuery) {
	cmd.Flags().StringVar(&filter.Board, "board", "", "updates of this board only")
	cmd.Flags().StringVar(&filter.Bucket, "bucket", "", "updates of this bucket only, such as 20261120")
	cmd.Flags().StringVar(&filter.Reason, "reason", "", "only those with exactly this reason")
}

// deadLetterAction is an action on a dead letter, or on those of a filter.
type deadLetterAction struct {
	verb, short string
	one         func(d *ingest.DeadLetters, ctx context.Context, id int64, dryRun bool) error
	selected    func(d *ingest.DeadLetters, ctx context.Context, q ingest.DeadLetterQuery, dryRun bool) (ingest.HandledDeadLetters, error)
}

// handleDeadLetters returns the command of an action.
func (p *program) handleDeadLetters(action deadLetterAction) *cobra.Command {
	var (
		filter      ingest.DeadLetterQuery
		actor       string
		all, dryRun bool
	)
	cmd := &cobra.Command{
		Use:   action.verb + " [ID]",
		Short: action.short,
		Args:  cobra.MaximumNArgs(1),
		RunE: p.run(func(ctx context.Context, args []string) error {
			filtered := filter != (ingest.DeadLetterQuery{})
			switch {
			case len(args) == 1 && (filtered || all):
				return errors.New("name one dead letter, or a filter, but not both")
			case len(args) == 1:
				return p.runOnDeadLetter(ctx, args[0], action, actor, dryRun)
			case !filtered && !all:
				return errors.New("name a dead letter, a filter (--board, --bucket, --reason), or --all")
			}
			return p.runOnDeadLetters(ctx, filter, action, actor, dryRun)
		}),
	}
	addDeadLetterFilter(cmd, &filter)
	cmd.Flags().BoolVar(&all, "all", false, "every dead letter, if there is no filter")
	p.addActorFlag(cmd, &actor)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "change nothing, and only say what can be done")
	return cmd
}

// messageOf returns the update of a dead letter as words, or the bytes of a message
// that can't be decoded.
func messageOf(l models.DeadLetter) string {
	u := l.Update
	if u == nil {
		return fmt.Sprintf("payload=%x", l.Payload)
	}
	user := ""
	if u.User != "" {
		user = fmt.Sprintf(" user_id=%s", u.User)
	}
	return fmt.Sprintf("board=%s bucket=%s%s score=%d reached_at=%s",
		u.Board, u.Bucket, user, u.Score, u.ReachedAt.Time().UTC().Format(time.RFC3339Nano))
}

// runOnDeadLetter handles the dead letter whose id a text holds.
func (p *program) runOnDeadLetter(ctx context.Context, text string, action deadLetterAction, actor string, dryRun bool) error {
	entry := audit.Entry{AuditEntry: models.AuditEntry{Actor: actor, Action: "dead-letters " + action.verb}}
	done := "done"
	if dryRun {
		done = "it can be done"
	}
	return decideOn(ctx, p, text, "dead letter", entry, dryRun, func(a *app.App, id int64) (string, error) {
		return done, action.one(a.DeadLetters, ctx, id, dryRun)
	}, func(done string) { fmt.Fprintln(p.stdout, done) })
}

// runOnDeadLetters handles the dead letters of a filter that exist when it begins, in
// parts. It is one entry of the audit log.
func (p *program) runOnDeadLetters(
	ctx context.Context, filter ingest.DeadLetterQuery, action deadLetterAction, actor string, dryRun bool,
) error {
	return p.runOnApp(ctx, func(a *app.App) error {
		entry := models.AuditEntry{
			Actor: actor, Action: "dead-letters " + action.verb, Board: filter.Board, Bucket: filter.Bucket, Target: filter.Reason,
		}
		all, err := audited(ctx, a, audit.Entry{AuditEntry: entry}, dryRun, func() (all ingest.HandledDeadLetters, err error) {
			for filter.Limit = listPage; ; filter.Before = all.Last {
				part, err := action.selected(a.DeadLetters, ctx, filter, dryRun)
				if err != nil {
					return all, err
				}
				all.Done, all.Failed, all.Last = all.Done+part.Done, all.Failed+part.Failed, part.Last
				if all.Last == 0 {
					return all, nil
				}
			}
		})
		if err != nil {
			return fmt.Errorf("after %d: %s", all.Done, publicMessage(err))
		}
		done := "done"
		if dryRun {
			done = "can be done"
		}
		fmt.Fprintf(p.stdout, "%d %s, %d can't be applied and stay\n", all.Done, done, all.Failed)
		return nil
	})
}

func (p *program) webhooksCommand() *cobra.Command {
	q := outcomes.Query{Limit: listPage}
	list := listCommand(p, "List deliveries, newest first", &q.Before, func(ctx context.Context, a *app.App) ([]outcomes.Delivery, error) {
		if q.Type != "" && !slices.Contains(models.OutcomeTypes(), q.Type) {
			return nil, fmt.Errorf("--event: must be one of %v, not %q", models.OutcomeTypes(), q.Type)
		}
		if q.State != "" && !slices.Contains(models.DeliveryStates(), q.State) {
			return nil, fmt.Errorf("--state: must be one of %v, not %q", models.DeliveryStates(), q.State)
		}
		return a.Deliveries.List(ctx, q)
	}, p.printDelivery)
	list.Flags().StringVar(&q.Target, "target", "", "deliveries to this address only")
	list.Flags().StringVar((*string)(&q.Type), "event", "", "deliveries of this event only, such as board.final")
	list.Flags().StringVar((*string)(&q.State), "state", "", "deliveries in this state only: waiting, delivered, failed or dropped")
	dryRun, actor := false, ""
	replay := &cobra.Command{
		Use:   "replay ID",
		Short: "Send a delivery again, with the same webhook-id",
		Args:  cobra.ExactArgs(1),
		RunE: p.run(func(ctx context.Context, args []string) error {
			entry := audit.Entry{AuditEntry: models.AuditEntry{Actor: actor, Action: "webhooks replay"}}
			return decideOn(ctx, p, args[0], "delivery", entry, dryRun, func(a *app.App, id int64) (outcomes.Delivery, error) {
				return a.Deliveries.Replay(ctx, id, dryRun)
			}, p.printDelivery)
		}),
	}
	replay.Flags().BoolVar(&dryRun, "dry-run", false, "change nothing; print the delivery that would be sent again")
	p.addActorFlag(replay, &actor)
	return p.group("webhooks", "List or replay deliveries of webhooks", list, replay)
}

// printDelivery prints a delivery and its last attempt as a line.
func (p *program) printDelivery(d outcomes.Delivery) {
	last := "-"
	if n := len(d.Last); n > 0 {
		a := d.Last[n-1]
		if last = a.Error; last == "" {
			last = strconv.Itoa(a.Status)
		}
	}
	p.row(d.ID, d.CreatedAt.UTC().Format(time.RFC3339), d.Type, d.State,
		d.Target, d.MessageID, d.Attempts, last)
}
