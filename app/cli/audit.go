package cli

import (
	"context"
	"errors"
	"os/user"
	"strconv"

	"github.com/spf13/cobra"

	"stepboard/app"
	"stepboard/services/operations/audit"
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
