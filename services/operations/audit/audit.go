// Package audit keeps a log of what operators have changed or tried to change.
package audit

import (
	"context"
	"log/slog"
	"time"

	"stepboard/models"
)

// finishTimeout bounds how long the outcome of an action may take to store.
const finishTimeout = 5 * time.Second

// Service writes and reads the log. Safe for concurrent use.
type Service struct {
	store     *Store
	directory models.Finder
	clock     models.Clock
	log       *slog.Logger
}

// New returns a service over a store.
func New(store *Store, directory models.Finder, clock models.Clock, log *slog.Logger) *Service {
	return &Service{store: store, directory: directory, clock: clock, log: log}
}

// Entry is an entry of the log as operators see it.
type Entry struct {
	models.AuditEntry
	// User is the user whom the action concerns; empty for none, and for a user who does
	// not exist, or no longer.
	User models.UserID `gorm:"column:external_id"`
	// Nickname is that of the user; Begin does not need it.
	Nickname string
}

// Begin stores that an action begins. Its caller must call finish with what the action
// has returned. An action that can't be stored must not be done: CodeUnavailable. One
// statement, and one for a user whom the process does not know.
func (s *Service) Begin(ctx context.Context, e Entry) (finish func(error), err error) {
	var row models.RowID
	if e.User != "" {
		if row, err = s.directory.FindOne(ctx, e.User); err != nil {
			return nil, err
		}
	}
	// Actions are logged before their parameters are checked.
	for _, text := range []*string{&e.Actor, &e.Action, &e.Board, &e.Bucket, &e.Target, &e.Reason, &e.RequestID} {
		*text = models.Storable(*text, maxText)
	}
	e.At = models.TimestampOf(s.clock()).Time()
	if err := s.store.insert(ctx, &e.AuditEntry, row); err != nil {
		return nil, models.Unavailable("write the audit log", err)
	}
	return func(failure error) { s.finish(ctx, e.AuditEntry, failure) }, nil
}

// maxText is the longest text of an entry, in bytes. Longer ones are cut.
const maxText = 1000

// finish stores the outcome of an action. If this fails, the outcome stays empty: the action
// can't be undone. That is logged unless the action has failed itself, which its caller
// reports.
func (s *Service) finish(ctx context.Context, e models.AuditEntry, failure error) {
	outcome := models.OutcomeDone
	if failure != nil {
		outcome = string(models.CodeOf(failure))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	if err := s.store.setOutcome(ctx, e.ID, outcome); err != nil && failure == nil {
		s.log.ErrorContext(ctx, "the audit log lacks the outcome of an action", "id", e.ID, "action", e.Action,
			"outcome", outcome, "error", err)
	}
}

// Query selects a page of the log, newest first.
type Query struct {
	// Actor, Action and User filter the log; empty selects all.
	Actor  string
	Action string
	User   models.UserID
	// Before is the id of the last entry of the page before; 0 begins at the newest.
	Before int64
	Limit  int
}
