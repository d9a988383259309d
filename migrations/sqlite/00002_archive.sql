-- The archive, as in the Postgres migration of the same number. One table replaces
-- the partitions, because an embedded database is short-lived.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE board_buckets ADD COLUMN day date NOT NULL DEFAULT '1970-01-01';
ALTER TABLE board_buckets ADD COLUMN cold_at datetime NOT NULL DEFAULT '1970-01-01 00:00:00';
CREATE INDEX board_buckets_day ON board_buckets (board, day);

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
