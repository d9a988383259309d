-- The archive, as in the Postgres migration of the same number, with versions in place of
-- partitions.

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

-- The rows of an archived bucket make up a version. A run writes a new one in many short
-- transactions: it is building, and no reader sees it. The transaction that completes the run makes
-- it current, and the one before it dropped. Rows of dropped versions are deleted later.
CREATE TABLE archive_versions (
    version integer PRIMARY KEY AUTOINCREMENT,
    board   text    NOT NULL,
    bucket  text    NOT NULL,
    state   text    NOT NULL CHECK (state IN ('building', 'current', 'dropped'))
);
CREATE UNIQUE INDEX archive_versions_current ON archive_versions (board, bucket) WHERE state = 'current';
CREATE INDEX archive_versions_other ON archive_versions (board, bucket) WHERE state <> 'current';

-- One row for each user of a version, and one for each rank. The second table is not an index of
-- the first: a run writes users in the order of users, and ranks in the order of ranks, so that a
-- transaction changes few pages.
CREATE TABLE archived_scores (
    version   integer NOT NULL,
    user_id   integer NOT NULL,
    composite integer NOT NULL,
    rank      integer NOT NULL,
    PRIMARY KEY (version, user_id)
) WITHOUT ROWID;
CREATE TABLE archived_ranks (
    version integer NOT NULL,
    rank    integer NOT NULL,
    user_id integer NOT NULL,
    PRIMARY KEY (version, rank)
) WITHOUT ROWID;
-- +goose StatementEnd
