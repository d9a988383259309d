package cli

import (
	"context"

	"stepboard/app"
	"stepboard/services/audit"
)

// audited does something that changes a decision, and stores it in the audit log.
func audited[T any](ctx context.Context, a *app.App, e audit.Entry, do func() (T, error)) (T, error) {
	finish, err := a.Audit.Begin(ctx, e)
	if err != nil {
		var none T
		return none, err
	}
	result, err := do()
	finish(err)
	return result, err
}
