-- The archive: buckets that have left Redis.
--
-- board_buckets learns the day that a bucket is filed under and the moment
-- from which the archive may have it. Both are written down with the bucket,
-- so that every replica agrees on them whatever its settings are. Adding and
-- filling the columns rewrites a table of a few hundred rows a year and board.

-- +goose Up
ALTER TABLE board_buckets ADD COLUMN day date, ADD COLUMN cold_at timestamptz;
UPDATE board_buckets SET day = to_date(bucket, 'YYYYMMDD'), cold_at = ends_at + interval '3 days';
ALTER TABLE board_buckets ALTER COLUMN day SET NOT NULL, ALTER COLUMN cold_at SET NOT NULL;
CREATE INDEX board_buckets_day ON board_buckets (board, day);

-- One row for each run of a bucket's archival. Run 1 moves the bucket; later
-- runs merge what came after it. The figures are those of the whole bucket in
-- archived_scores as the run left it.
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

-- One row for each user of an archived bucket, with its rank. Months are
-- partitions of their own, made when they are needed, so that old ones can be
-- dropped whole.
--
-- Two kinds of read decide the keys: many users on one day, and one user over
-- many days. The primary key serves both, as a day is one range of it: a list
-- of friends is read from that range, a history by one probe for each day. A
-- key by user and day would read a history from one place, but every day would
-- touch every page of the index. The board comes last, because a key that
-- begins with text is slower to compare. The index by rank serves the global
-- lists; there the board comes first, so that a small board does not wade
-- through the ranks of a large one. docs/architecture.md has the measurements.
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
