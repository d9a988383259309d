-- The archive of buckets that have left Redis. All tables are new.

-- +goose Up
-- +goose StatementBegin
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

-- The buckets, each with whether it is archived: whether a run of it is complete.
CREATE VIEW bucket_states AS
    SELECT b.*, EXISTS (
        SELECT 1 FROM board_archives a WHERE a.board = b.board AND a.bucket = b.bucket AND a.state = 'complete') AS archived
    FROM board_buckets b;

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
