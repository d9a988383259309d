package handlers

import (
	"context"

	"stepboard/models"
	"stepboard/services/boards/archive"
	"stepboard/services/operations/status"
)

// BucketLister lists the buckets of boards.
type BucketLister interface {
	Buckets(ctx context.Context, q status.BucketQuery) ([]status.Bucket, error)
}

// bucketHandlers serves the buckets of boards to operators.
type bucketHandlers struct {
	buckets BucketLister
	cursors CursorSealer
}

var listBuckets = operation{
	id:      "listBuckets",
	summary: "List the days of a board",
	description: "The buckets of a board, newest first: its days, or the only bucket of an event or rolling board. " +
		"Days for which nothing was ever reported have none. " +
		"Totals of days that are not archived are read from Redis; they are null while it does not answer.",
	errors: []models.Code{models.CodeBoardNotFound},
}

type listBucketsInput struct {
	Board string `path:"board" doc:"The board's name" example:"steps"`
	From  string `query:"from" format:"date" doc:"The first day, YYYY-MM-DD"`
	To    string `query:"to" format:"date" doc:"The last day"`
	Paging
}

// boardBucket is a bucket as operators see it.
type boardBucket struct {
	Bucket      string             `json:"bucket" doc:"Its name: 20261120 for a day, event, or live for a rolling board" example:"20261120"`
	Date        *string            `json:"date" nullable:"true" format:"date" doc:"The day; null if the board has no days" example:"2026-11-20"`
	State       status.BucketState `json:"state" enum:"upcoming,open,closed,cold,moving,archived,failed" doc:"upcoming: it has not begun. open: it takes updates. closed: it takes none. cold: it waits for the archive. moving: an archive run is under way. archived: the last run is complete. failed: the last run has failed"`
	StartsAt    models.Timestamp   `json:"starts_at" format:"date-time" doc:"When it began or begins"`
	EndsAt      models.Timestamp   `json:"ends_at" format:"date-time" doc:"When it ends"`
	ClosesAt    models.Timestamp   `json:"closes_at" format:"date-time" doc:"When it stops taking updates"`
	ColdAt      models.Timestamp   `json:"cold_at" format:"date-time" doc:"When it becomes the archive's; the first run begins an hour later"`
	Total       *int64             `json:"total" nullable:"true" doc:"How many users have a score; null before it begins, and while Redis, which has it, does not answer"`
	ScoreSum    *int64             `json:"score_sum" nullable:"true" doc:"The sum of the scores; null until it is archived"`
	Corrections int64              `json:"corrections" doc:"How many corrections of its scores hold, exclusions from all days included"`
	Revision    int                `json:"revision" doc:"The revision of the last result that was written for webhooks; 0 for none"`
	LastRun     *archiveRun        `json:"last_run" doc:"The last archive run; null for none"`
}

func boardBucketOf(b status.Bucket) boardBucket {
	shown := boardBucket{
		Bucket: b.Name, Date: dateIfAny(b.Date), State: b.State, Total: b.Total, ScoreSum: b.ScoreSum, Corrections: b.Corrections, Revision: b.Revision,
		StartsAt: models.TimestampOf(b.StartsAt), EndsAt: models.TimestampOf(b.EndsAt),
		ClosesAt: models.TimestampOf(b.ClosesAt), ColdAt: models.TimestampOf(b.ColdAt),
	}
	if b.LastRun != nil {
		shown.LastRun = new(archiveRunOf(archive.ListedRun{ArchiveRun: *b.LastRun, ScoreSum: b.Bucket.ScoreSum(b.LastRun.Entries, b.LastRun.PointsSum)}))
	}
	return shown
}

type boardBucketPage struct {
	Buckets    []boardBucket `json:"buckets" nullable:"false" doc:"This page, newest first"`
	NextCursor *string       `json:"next_cursor" nullable:"true" doc:"Where the next page begins; null on the last"`
}

func (h *bucketHandlers) list(ctx context.Context, in *listBucketsInput) (*output[boardBucketPage], error) {
	to := optionalDate(in.To)
	buckets, next, err := pageOf(ctx, h.cursors, in.Paging, boardBucketOf, func(after models.Cursor, limit int) ([]status.Bucket, error) {
		if in.Cursor != "" {
			before := models.Date(after.Key) - 1
			to = &before
		}
		return h.buckets.Buckets(ctx, status.BucketQuery{Board: in.Board, From: optionalDate(in.From), To: to, Limit: limit})
	}, "buckets", in.Board, in.From, in.To)
	return outputOf(boardBucketPage{buckets, next}, err)
}
