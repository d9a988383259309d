-- The archive of buckets that have left Redis.
--
-- board_buckets gets the day of a bucket and the time from which it may be
-- archived. Both are stored, so that all replicas agree on them whatever their
-- settings. Adding the columns takes an ACCESS EXCLUSIVE lock on board_buckets,
-- and the UPDATE rewrites it: a few hundred rows for each board and year.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE board_buckets ADD COLUMN day date, ADD COLUMN cold_at timestamptz;
UPDATE board_buckets SET day = to_date(bucket, 'YYYYMMDD'), cold_at = ends_at + interval '3 days';
ALTER TABLE board_buckets ALTER COLUMN day SET NOT NULL, ALTER COLUMN cold_at SET NOT NULL;
CREATE INDEX board_buckets_day ON board_buckets (board, day);

-- One row for each archive run of a bucket. Run 1 moves the bucket to the archive;
-- later runs merge the entries that arrived after it. entries, score_sum and hash
-- describe the whole bucket in archived_scores after the run.
CREATE TABLE board_archives (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    board       text        NOT NULL,
    bucket      text        NOT NULL,
    run         integer     NOT NULL CHECK (run >= 1),
    shards      integer     NOT NULL,
    state       text        NOT NULL CHECK (state IN ('running', 'failed', 'complete')),
    attempts    integer     NOT NULL,
    moved       bigint      NOT NULL,
    entries     bigint      NOT NULL,
    score_sum   bigint      NOT NULL,
    hash        bigint      NOT NULL,
    started_at  timestamptz NOT NULL,
    finished_at timestamptz,
    error       text        NOT NULL,
    UNIQUE (board, bucket, run)
);

-- One row for each user of an archived bucket, with the rank. Each month is a
-- partition, created when it is needed, so that an old month can be dropped whole.
--
-- Two kinds of read determine the keys: many users on one day, and one user on
-- many days. The primary key serves both, because a day is one range of it: a
-- friend ranking reads from that range, and a history makes one lookup for each
-- day. A key by user and day would store a history together, but writing a day
-- would change every page of the index. The board comes last, because a key that
-- begins with text is slower to compare. The index by rank serves global
-- rankings. Its board comes first, so that a small board does not read past the
-- ranks of a large one. The comment of package services/boards/archive has the
-- measurements.
CREATE TABLE archived_scores (
    user_id    bigint      NOT NULL,
    score      bigint      NOT NULL,
    reached_at timestamptz NOT NULL,
    rank       integer     NOT NULL,
    day        date        NOT NULL,
    board      text COLLATE "C" NOT NULL,
    PRIMARY KEY (day, user_id, board)
) PARTITION BY RANGE (day);
CREATE INDEX archived_scores_rank ON archived_scores (board, day, rank);
-- +goose StatementEnd
