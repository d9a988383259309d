package demo

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"stepboard/app"
	"stepboard/models"
	"stepboard/services/boards/ingest"
	"stepboard/services/boards/phones"
	"stepboard/services/operations/audit"
)

// offerOperator serves the token of the demo's operator, which the console fills in.
func (s *simulation) offerOperator(c *gin.Context) {
	token, err := s.signOperator()
	if err != nil {
		c.AbortWithStatus(http.StatusInternalServerError)
		return
	}
	c.JSON(http.StatusOK, gin.H{"token": token})
}

// erasedUser is a person who has been erased before the demo begins.
const erasedUser = "gone|0001"

// leaveWork makes what page and console show besides what people do: a held total, the address of a watch,
// dead letters, an attempt to replay one, and the erasure of a person. letters is where dead letters are
// stored.
func leaveWork(ctx context.Context, a *app.App, p *people, letters *ingest.DeadLetterStore, now time.Time) error {
	if at := p.shaken(); at >= 0 {
		upload := ingest.Upload{User: p.ids[at+1], Date: p.board.Today(now), Score: heldScore}
		if _, _, err := a.Ingest.Accept(ctx, stepsBoard, []ingest.Upload{upload}); err != nil {
			return err
		}
	}
	watch := phones.Choice{Name: "Watch"}
	if _, _, err := a.Phones.Add(ctx, p.ids[0], stepsBoard, watch); err != nil {
		return err
	}
	lost := ingest.Update{Board: stepsBoard, Bucket: "20200101", User: 1, Score: 4321, ReachedAt: models.TimestampOf(now)}
	failedAt := now.Add(-time.Hour).UTC()
	err := letters.Write(ctx, []models.DeadLetter{
		{
			Position: "demo 1", Reason: "no bucket 20200101 of board steps exists", Board: lost.Board, Bucket: lost.Bucket,
			Payload: lost.AppendTo(nil), QueuedAt: failedAt, FailedAt: failedAt,
		},
		{Position: "demo 2", Reason: "the message is no update", Payload: []byte("?"), QueuedAt: failedAt, FailedAt: failedAt},
	})
	if err != nil {
		return err
	}
	page, err := a.DeadLetters.List(ctx, ingest.DeadLetterQuery{Bucket: lost.Bucket, Limit: 1})
	if err != nil {
		return err
	}
	for _, letter := range page {
		entry := models.AuditEntry{Actor: demoOperator, Action: "replayDeadLetter", Target: fmt.Sprint(letter.ID)}
		finish, err := a.Audit.Begin(ctx, audit.Entry{AuditEntry: entry})
		if err != nil {
			return err
		}
		finish(a.DeadLetters.Replay(ctx, letter.ID, false)) // it fails: the bucket does not exist
	}
	return eraseSomebody(ctx, a)
}

// eraseSomebody creates a person and begins their erasure, as an operator does.
func eraseSomebody(ctx context.Context, a *app.App) error {
	if _, err := a.Directory.Put(ctx, erasedUser, models.Profile{Nickname: "Gone"}); err != nil {
		return err
	}
	entry := audit.Entry{
		AuditEntry: models.AuditEntry{Actor: demoOperator, Action: models.EraseAction, Reason: "asked for by letter"}, User: erasedUser,
	}
	finish, err := a.Audit.Begin(ctx, entry)
	if err != nil {
		return err
	}
	_, err = a.Erasure.Begin(ctx, erasedUser, false)
	finish(err)
	return err
}
