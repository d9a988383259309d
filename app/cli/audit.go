package cli

import (
	"context"
	"errors"
	"os/user"

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
