package handlers

import (
	"context"

	"stepboard/models"
	"stepboard/services/operations/audit"
	"stepboard/services/people/sessions"
)

// OperatorService keeps who may ask for tokens of scope admin, and who has brought whom.
type OperatorService interface {
	Operators(ctx context.Context) ([]sessions.Operator, error)
	AddOperator(ctx context.Context, user models.UserID, by string, dryRun bool) error
	RemoveOperator(ctx context.Context, user models.UserID, dryRun bool) error
	CameBy(ctx context.Context, user models.UserID) (sessions.CameBy, error)
}

// operatorHandlers serves operators to operators.
type operatorHandlers struct{ operators OperatorService }

var listOperators = operation{
	id:          "listOperators",
	summary:     "List the operators",
	description: "The users whose sessions may ask for tokens of scope admin, the first one first.",
}

// operatorList is who may ask for tokens of scope admin.
type operatorList struct {
	Operators []listedOperator `json:"operators" nullable:"false" doc:"The first one first"`
}

type listedOperator struct {
	UserID   models.UserID    `json:"user_id" doc:"The user"`
	Nickname string           `json:"nickname" doc:"Their name"`
	MadeBy   string           `json:"made_by" doc:"Who has made them one" example:"the first code"`
	Since    models.Timestamp `json:"since" format:"date-time" doc:"When"`
}

func (h *operatorHandlers) list(ctx context.Context, _ *struct{}) (*output[operatorList], error) {
	list, err := h.operators.Operators(ctx)
	return outputOf(operatorList{answersOf(list, func(o sessions.Operator) listedOperator {
		return listedOperator{o.User, o.Nickname, o.MadeBy, models.TimestampOf(o.CreatedAt)}
	})}, err)
}

type operatorInput struct {
	ID models.UserID `path:"id" doc:"The user" example:"1001"`
	DryRun
}

func (in *operatorInput) about(e *audit.Entry) { e.User = in.ID }

var addOperator = operation{
	id:          "addOperator",
	summary:     "Make a user an operator",
	description: "The user's sessions may ask for tokens of scope admin from now on. Repeating it changes nothing.",
	errors:      []models.Code{models.CodeUserNotFound},
}

func (h *operatorHandlers) add(ctx context.Context, in *operatorInput) (*struct{}, error) {
	return nil, h.operators.AddOperator(ctx, in.ID, string(callerFrom(ctx).Operator), in.isDryRun())
}

var removeOperator = operation{
	id:          "removeOperator",
	summary:     "Make a user no operator any more",
	description: "Tokens of scope admin that the user has are refused at once. Repeating it changes nothing. The last operator stays.",
	errors:      []models.Code{models.CodeLastOperator},
}

func (h *operatorHandlers) remove(ctx context.Context, in *operatorInput) (*struct{}, error) {
	return nil, h.operators.RemoveOperator(ctx, in.ID, in.isDryRun())
}

var getCameBy = operation{
	id:          "getCameBy",
	summary:     "Who has brought a user, and whom the user has brought",
	description: "Of users who have signed up here. The newest 200 of those who came by the user's invitations.",
	errors:      []models.Code{models.CodeUserNotFound},
}

// cameBy says how a user has come.
type cameBy struct {
	SignedUpAt *models.Timestamp `json:"signed_up_at" format:"date-time" nullable:"true" doc:"When the user has signed up; null for somebody who has not"`
	By         *knownPerson      `json:"by" doc:"Who has invited the user; null for nobody, or somebody who was erased"`
	Group      string            `json:"group" doc:"The name of the group that the invitation was of; empty for none"`
	Brought    []broughtPerson   `json:"brought" nullable:"false" doc:"Who came by the user's invitations, the last one first"`
}

type knownPerson struct {
	UserID   models.UserID `json:"user_id" doc:"The user"`
	Nickname string        `json:"nickname" doc:"Their name"`
}

type broughtPerson struct {
	knownPerson
	SignedUpAt models.Timestamp `json:"signed_up_at" format:"date-time" doc:"When"`
}

type cameByInput struct {
	ID models.UserID `path:"id" doc:"The user" example:"1001"`
}

func (h *operatorHandlers) cameBy(ctx context.Context, in *cameByInput) (*output[cameBy], error) {
	c, err := h.operators.CameBy(ctx, in.ID)
	answer := cameBy{Group: c.Group, Brought: answersOf(c.Brought, func(b sessions.Brought) broughtPerson {
		return broughtPerson{knownPerson{b.User, b.Nickname}, models.TimestampOf(b.CreatedAt)}
	})}
	if c.Known {
		answer.SignedUpAt = timestampIfAny(&c.At)
	}
	if c.By != "" {
		answer.By = &knownPerson{c.By, c.Name}
	}
	return outputOf(answer, err)
}
