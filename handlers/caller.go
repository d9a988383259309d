package handlers

import (
	"context"

	"stepboard/models"
	"stepboard/services/platform/auth"
)

// requester is the caller of a request.
type requester struct {
	*auth.Caller

	// address is the address whose limits the request is subject to; "" for none.
	address string
	// requestID is the request's id in the log.
	requestID string
	// session is the session that the cookie names, of a call that reads it.
	session session
}

// requesterKey is the key of a context's requester.
type requesterKey struct{}

// withRequester returns a context with a requester, which is empty until the request was
// authenticated.
func withRequester(ctx context.Context) context.Context {
	return context.WithValue(ctx, requesterKey{}, new(requester))
}

// callerFrom returns the caller of a request that was authenticated.
func callerFrom(ctx context.Context) *requester { return ctx.Value(requesterKey{}).(*requester) }

// operatorFrom returns the operator whose decision a request stores. CodeForbidden if the
// token names nobody.
func operatorFrom(ctx context.Context) (models.UserID, error) {
	operator := callerFrom(ctx).Operator
	if operator == "" {
		return "", models.Errorf(models.CodeForbidden, "this call is recorded: the token needs a sub that says whose it is")
	}
	return operator, nil
}

// OnBehalf is the parameter with which a service names the user that it acts for.
type OnBehalf struct {
	UserID models.UserID `query:"user_id" doc:"The user that a service acts for; a user's own id may be given too"`
}

// ownInput is the input of a call that acts for a user and has a body.
type ownInput[Body any] struct {
	OnBehalf
	Body Body
}

// user returns the user that the request acts for.
func (o OnBehalf) user(ctx context.Context) (models.UserID, error) {
	user, err := o.userIfAny(ctx)
	if err == nil && user == "" {
		return "", models.Invalid("query.user_id", "a service token must name the user that it acts for")
	}
	return user, err
}

// userIfAny returns the user that the request acts for; empty for a service or an
// operator that names none.
func (o OnBehalf) userIfAny(ctx context.Context) (models.UserID, error) {
	caller := callerFrom(ctx)
	if o.UserID == "" {
		return caller.User, nil
	}
	if !caller.Service && caller.User != o.UserID {
		return "", models.Errorf(models.CodeForbidden, "a user acts only for oneself")
	}
	return o.UserID, nil
}
