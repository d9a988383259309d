package handlers

import (
	"context"
	"errors"
	"net/http"

	"stepboard/models"
	"stepboard/services/boards/archive"
	"stepboard/services/boards/catalog"
	"stepboard/services/operations/audit"
	"stepboard/services/operations/status"
)

// ArchiveService moves buckets to the archive.
type ArchiveService interface {
	Runs(ctx context.Context, q archive.RunsQuery) ([]archive.ListedRun, error)
	Start(ctx context.Context, bucket *models.Bucket) (models.ArchiveRun, error)
	Next(ctx context.Context, bucket *models.Bucket) (models.ArchiveRun, error)
}

// BucketFinder finds a board's bucket by the name that an operator gives.
type BucketFinder interface {
	ByName(ctx context.Context, b *catalog.Board, name string) (*models.Bucket, error)
}

// archiveHandlers serves the archive's runs to operators.
type archiveHandlers struct {
	archive ArchiveService
	boards  BoardFinder
	buckets BucketFinder
	cursors CursorSealer
}

// archiveRun is one run of a bucket's archival.
type archiveRun struct {
	Board      string              `json:"board" doc:"The board's name"`
	Bucket     string              `json:"bucket" doc:"The bucket: 20261120 for a day, event for an event"`
	Run        int                 `json:"run" doc:"1 moves the bucket; later runs merge updates that came after it"`
	State      models.ArchiveState `json:"state" enum:"running,failed,complete" doc:"A run that is not complete is resumed by the next archival"`
	Attempts   int                 `json:"attempts" doc:"How often it was started"`
	Shards     int                 `json:"shards" doc:"Sorted sets that held the bucket"`
	Moved      int64               `json:"moved" doc:"Entries read so far"`
	Entries    int64               `json:"entries" doc:"Entries of the bucket in the archive when the run completed; 0 until then"`
	ScoreSum   int64               `json:"score_sum" doc:"The sum of their scores"`
	Error      string              `json:"error" doc:"Why the run failed; empty otherwise"`
	StartedAt  models.Timestamp    `json:"started_at" format:"date-time" doc:"When it was started last"`
	FinishedAt *models.Timestamp   `json:"finished_at" format:"date-time" doc:"When it ended; null while it runs"`
}

func archiveRunOf(r archive.ListedRun) archiveRun {
	return archiveRun{
		Board: r.Board, Bucket: r.Bucket, Run: r.Run, State: r.State, Attempts: r.Attempts, Shards: r.Shards,
		Moved: r.Moved, Entries: r.Entries, ScoreSum: r.ScoreSum, Error: r.Error, StartedAt: models.TimestampOf(r.StartedAt),
		FinishedAt: timestampIfAny(r.FinishedAt),
	}
}

var listArchives = operation{
	id:          "listArchiveRuns",
	summary:     "List the runs of the archive",
	description: "The runs of the nightly archival, newest first, with their figures; `?state=failed` lists the runs that failed and why.",
}

type listArchivesInput struct {
	Board  string `query:"board" pattern:"^[a-z0-9-]+$" maxLength:"40" doc:"Runs of this board only"`
	Bucket string `query:"bucket" pattern:"^[a-z0-9]+$" maxLength:"20" doc:"Runs of this bucket only, such as 20261120"`
	State  string `query:"state" enum:"running,failed,complete" doc:"Runs in this state only"`
	Paging
}

type archiveRunPage struct {
	Runs       []archiveRun `json:"runs" nullable:"false" doc:"This page, newest first"`
	NextCursor *string      `json:"next_cursor" nullable:"true" doc:"Where the next page begins; null on the last"`
}

func (h *archiveHandlers) list(ctx context.Context, in *listArchivesInput) (*output[archiveRunPage], error) {
	runs, next, err := pageOf(ctx, h.cursors, in.Paging, archiveRunOf, func(after models.Cursor, limit int) ([]archive.ListedRun, error) {
		return h.archive.Runs(ctx, archive.RunsQuery{
			Board: in.Board, Bucket: in.Bucket, State: models.ArchiveState(in.State), Before: after.Key, Limit: limit,
		})
	}, "archives", in.Board, in.Bucket, in.State)
	return outputOf(archiveRunPage{runs, next}, err)
}

var startArchive = operation{
	id:      "startArchiveRun",
	summary: "Archive a day now",
	description: "Archive a day that is past its hot days, such as `{\"board\":\"steps\",\"bucket\":\"2026-11-16\"}`, or merge updates that came after its archival. " +
		"The run continues after the answer; GET /v1/admin/archives shows its progress. bucket_hot: it is too early; archive_running: a run of this day is under way, or two runs of other days. " +
		"With `?dry_run=true` the answer, a 200, is the run that would begin, or the last one if nothing is left to do.",
	otherStatus: http.StatusAccepted,
	errors: []models.Code{models.CodeBoardNotFound, models.CodeNotFound, models.CodeBoardKind, models.CodeBucketHot, models.CodeArchiveRunning,
		models.CodeDateInFuture},
}

type startArchiveInput struct {
	DryRun
	Body newArchiveRun
}

// newArchiveRun names the bucket to archive.
type newArchiveRun struct {
	Board  string `json:"board" doc:"The board's name" example:"steps"`
	Bucket string `json:"bucket" doc:"The day, YYYY-MM-DD, or event" example:"2026-11-16"`
}

func (in *startArchiveInput) about(e *audit.Entry) { e.Board, e.Bucket = in.Body.Board, in.Body.Bucket }

func (h *archiveHandlers) start(ctx context.Context, in *startArchiveInput) (*statusOutput[archiveRun], error) {
	b, err := h.boards.Board(in.Body.Board)
	if err != nil {
		return nil, err
	}
	bucket, err := h.buckets.ByName(ctx, b, in.Body.Bucket)
	if errors.Is(err, catalog.ErrNoBucket) {
		return nil, models.Errorf(models.CodeNotFound, "nothing was ever written to %s of this board", in.Body.Bucket)
	}
	if models.CodeOf(err) == models.CodeValidationFailed {
		return nil, models.Invalid("body.bucket", err.Error())
	}
	if err != nil {
		return nil, err
	}
	begin := h.archive.Start
	if in.isDryRun() {
		begin = h.archive.Next
	}
	run, err := begin(ctx, bucket)
	shown := archiveRunOf(archive.ListedRun{ArchiveRun: run, ScoreSum: bucket.ScoreSum(run.Entries, run.PointsSum)})
	return statusOutputOf(in.status(http.StatusAccepted), shown, err)
}

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
