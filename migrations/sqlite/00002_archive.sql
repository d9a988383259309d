-- The archive, as in the Postgres migration of the same number. One table replaces
-- the partitions, because an embedded database is short-lived.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE board_archives (
    id          integer  PRIMARY KEY AUTOINCREMENT,
    board       text     NOT NULL,
    bucket      text     NOT NULL,
    run         integer  NOT NULL CHECK (run >= 1),
    shards      integer  NOT NULL,
    state       text     NOT NULL CHECK (state IN ('running', 'failed', 'complete')),
    attempts    integer  NOT NULL,
    moved       integer  NOT NULL,
    entries     integer  NOT NULL,
    score_sum   integer  NOT NULL,
    hash        integer  NOT NULL,
    started_at  datetime NOT NULL,
    finished_at datetime,
    error       text     NOT NULL,
    UNIQUE (board, bucket, run)
);

-- The buckets, each with whether it is archived: whether a run of it is complete.
CREATE VIEW bucket_states AS
    SELECT b.*, EXISTS (
        SELECT 1 FROM board_archives a WHERE a.board = b.board AND a.bucket = b.bucket AND a.state = 'complete') AS archived
    FROM board_buckets b;

CREATE TABLE archived_scores (
    user_id    integer  NOT NULL,
    score      integer  NOT NULL,
    reached_at datetime NOT NULL,
    rank       integer  NOT NULL,
    day        date     NOT NULL,
    board      text     NOT NULL,
    PRIMARY KEY (day, user_id, board)
);
CREATE INDEX archived_scores_rank ON archived_scores (board, day, rank);
-- +goose StatementEnd
