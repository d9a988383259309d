package erasure

import (
	"context"
	"slices"

	"stepboard/models"
)

// branchAtOnce is how many users BeginBranch erases before the user, in a call, which must end within seconds.
const branchAtOnce = 50

// Operated is a Service that leaves the last operator, whom others need. Safe for concurrent use.
type Operated struct {
	*Service
	Operators Operators
}

// Begin is that of the Service, or returns CodeLastOperator.
func (o Operated) Begin(ctx context.Context, user models.UserID, dryRun bool) (models.Erasure, error) {
	return o.begin(ctx, user, dryRun, erasureLimit, o.Operators.Leave)
}

// BeginBranch erases a user and all who came by their invitations, or by those of whom they have brought, branchAtOnce of them
// in a call. The user comes last, and everybody after those whom they have brought, so that a call that is repeated goes on,
// also after an error. The errors are those of Begin; if the user would not be erased, nobody is. In a dry run it changes
// nothing.
func (o Operated) BeginBranch(ctx context.Context, user models.UserID, dryRun bool) (b models.BranchErasure, err error) {
	for {
		users, err := o.branch(ctx, user)
		if b.Left = len(users); err != nil || dryRun || b.Done >= branchAtOnce {
			return b, err
		}
		if len(users) > 1 { // the user comes once nobody else is left
			users = users[1:]
		}
		for _, each := range slices.Backward(users[max(0, len(users)-branchAtOnce):]) {
			e, err := o.Begin(ctx, each, false)
			switch {
			case each == user:
				return models.BranchErasure{ID: e.ID, Done: b.Done + 1}, err
			case err == nil:
				b.Done++
			case models.CodeOf(err) != models.CodeUserNotFound: // another call has erased them
				return b, err
			}
		}
	}
}

// branch returns whom BeginBranch erases, the user first, or an error if the user or the last operator among them would not be.
func (o Operated) branch(ctx context.Context, user models.UserID) ([]models.UserID, error) {
	users, err := o.Operators.Branch(ctx, user)
	if models.CodeOf(err) == models.CodeUserNotFound { // or they are being erased
		users, err = []models.UserID{user}, nil
	}
	if err == nil {
		err = o.Operators.Leaves(ctx, users...)
	}
	if err == nil {
		_, err = o.Service.Begin(ctx, user, true)
	}
	return users, err
}
