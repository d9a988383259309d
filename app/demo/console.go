package demo

import (
	"context"
	"fmt"
	"time"

	"stepboard/models"
	"stepboard/services/boards/ingest"
	"stepboard/services/boards/phones"
	"stepboard/services/operations/audit"
)

// demoOperator is the actor of the demo's corrections.
const demoOperator = "operator"

// erasedUser is a person who has been erased before the demo begins.
const erasedUser = "gone|0001"

// leaveWork makes what page and console show besides what people do: reviews, a held total, the address
// of a watch, dead letters, an attempt to replay one, and the erasure of a person.
func (s *simulation) leaveWork(ctx context.Context) error {
	if _, err := s.app.Reviews.Find(ctx); err != nil { // the job would find the shaken phone a minute later
		return err
	}
	if at := s.shaken(); at >= 0 {
		upload := ingest.Upload{User: s.ids[at+1], Date: s.board.Today(s.clock()), Score: heldScore}
		if _, _, err := s.app.Ingest.Accept(ctx, stepsBoard, []ingest.Upload{upload}); err != nil {
			return err
		}
	}
	if _, _, err := s.app.Phones.Add(ctx, s.ids[0], stepsBoard, phones.Choice{Name: "Watch"}); err != nil {
		return err
	}
	if err := s.loseUpdates(ctx); err != nil {
		return err
	}
	// Somebody is erased, as by an operator.
	if _, err := s.app.Directory.Put(ctx, erasedUser, models.Profile{Nickname: "Gone"}); err != nil {
		return err
	}
	finish, err := s.app.Audit.Begin(ctx, audit.Entry{
		AuditEntry: models.AuditEntry{Actor: demoOperator, Action: models.EraseAction, Reason: "asked for by letter"}, User: erasedUser,
	})
	if err != nil {
		return err
	}
	_, err = s.app.Erasure.Begin(ctx, erasedUser, false)
	finish(err)
	return err
}

// loseUpdates stores two dead letters, one of which an operator has tried to replay.
func (s *simulation) loseUpdates(ctx context.Context) error {
	now := s.clock()
	lost := ingest.Update{Board: stepsBoard, Bucket: "20200101", User: 1, Score: 4321, ReachedAt: models.TimestampOf(now)}
	failedAt := now.Add(-time.Hour).UTC()
	err := ingest.NewDeadLetterStore(s.stores.Jobs.Gorm).Write(ctx, []models.DeadLetter{
		{
			Position: "demo 1", Reason: "no bucket 20200101 of board steps exists", Board: lost.Board, Bucket: lost.Bucket,
			Payload: lost.AppendTo(nil), QueuedAt: failedAt, FailedAt: failedAt,
		},
		{Position: "demo 2", Reason: "the message is no update", Payload: []byte("?"), QueuedAt: failedAt, FailedAt: failedAt},
	})
	if err != nil {
		return err
	}
	letters, err := s.app.DeadLetters.List(ctx, ingest.DeadLetterQuery{Bucket: lost.Bucket, Limit: 1})
	if err != nil {
		return err
	}
	id := letters[0].ID
	finish, err := s.app.Audit.Begin(ctx, audit.Entry{
		AuditEntry: models.AuditEntry{Actor: demoOperator, Action: "replayDeadLetter", Target: fmt.Sprint(id)},
	})
	if err == nil {
		finish(s.app.DeadLetters.Replay(ctx, id, false)) // it fails: the bucket does not exist
	}
	return err
}
