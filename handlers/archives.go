package handlers

import (
	"context"
	"errors"

	"stepboard/models"
	"stepboard/services/archive"
	"stepboard/services/catalog"
)

// archiveRun is one run of a bucket's archival.
type archiveRun struct {
	Board      string              `json:"board" doc:"The board's name"`
	Bucket     string              `json:"bucket" doc:"The bucket: 20261120 for a day, event for an event"`
	Run        int                 `json:"run" doc:"1 moves the bucket; later runs merge what came after it"`
	State      models.ArchiveState `json:"state" enum:"running,failed,complete" doc:"A run that is not complete is taken up by the next archival"`
	Attempts   int                 `json:"attempts" doc:"How often it was begun"`
	Shards     int                 `json:"shards" doc:"Sorted sets that held the bucket"`
	Moved      int64               `json:"moved" doc:"Entries read from Redis so far"`
	Entries    int64               `json:"entries" doc:"Entries of the bucket in the archive as the run left it; 0 until it is complete"`
	ScoreSum   int64               `json:"score_sum" doc:"The sum of their scores"`
	Error      string              `json:"error" doc:"Why the run failed; empty otherwise"`
	StartedAt  models.Timestamp    `json:"started_at" format:"date-time" doc:"When it was begun last"`
	FinishedAt *models.Timestamp   `json:"finished_at" format:"date-time" doc:"When it ended; null while it runs"`
}

func archiveRunOf(r models.ArchiveRun) archiveRun {
	answer := archiveRun{
		Board: r.Board, Bucket: r.Bucket, Run: r.Run, State: r.State, Attempts: r.Attempts, Shards: r.Shards,
		Moved: r.Moved, Entries: r.Entries, ScoreSum: r.ScoreSum, Error: r.Error, StartedAt: models.TimestampOf(r.StartedAt),
	}
	if r.FinishedAt != nil {
		at := models.TimestampOf(*r.FinishedAt)
		answer.FinishedAt = &at
	}
	return answer
}

type listArchivesInput struct {
	Board string `query:"board" doc:"Runs of this board only"`
	State string `query:"state" enum:"running,failed,complete" doc:"Runs in this state only"`
	Paging
}

type archivesOutput struct {
	Body struct {
		Runs       []archiveRun `json:"runs" nullable:"false" doc:"This page, newest first"`
		NextCursor *string      `json:"next_cursor" nullable:"true" doc:"Where the next page begins; null on the last"`
	}
}

func (a *api) listArchives(ctx context.Context, in *listArchivesInput) (*archivesOutput, error) {
	scope := []string{"archives", in.Board, in.State}
	before, err := in.beforeID(scope...)
	if err != nil {
		return nil, err
	}
	q := archive.RunsQuery{Board: in.Board, State: models.ArchiveState(in.State), Before: before, Limit: in.Limit + 1}
	list, err := a.Archive.Runs(ctx, q)
	if err != nil {
		return nil, err
	}
	out := &archivesOutput{}
	page := list[:min(len(list), in.Limit)]
	out.Body.Runs = make([]archiveRun, len(page))
	for i, r := range page {
		out.Body.Runs[i] = archiveRunOf(r)
	}
	if len(list) > len(page) {
		cursor := nextByID(page[len(page)-1].ID, scope...)
		out.Body.NextCursor = &cursor
	}
	return out, nil
}

type startArchiveInput struct {
	Body struct {
		Board  string `json:"board" doc:"The board's name" example:"steps"`
		Bucket string `json:"bucket" doc:"The day, YYYY-MM-DD, or event" example:"2026-11-16"`
	}
}

type archiveOutput struct {
	Body archiveRun
}

func (a *api) startArchive(ctx context.Context, in *startArchiveInput) (*archiveOutput, error) {
	b, err := a.Catalog.Definitions.Board(in.Body.Board)
	if err != nil {
		return nil, err
	}
	bucket, err := a.Catalog.Buckets.ByName(ctx, b, in.Body.Bucket)
	if errors.Is(err, catalog.ErrNoBucket) {
		return nil, models.Errorf(models.CodeNotFound, "nothing was ever written to %s of this board", in.Body.Bucket)
	}
	if models.CodeOf(err) == models.CodeValidationFailed {
		return nil, models.Invalid("body.bucket", err.Error())
	}
	if err != nil {
		return nil, err
	}
	run, err := a.Archive.Start(ctx, bucket)
	if err != nil {
		return nil, err
	}
	return &archiveOutput{Body: archiveRunOf(run)}, nil
}
