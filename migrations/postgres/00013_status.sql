-- The state of processes and jobs, for operators. Each process writes its row every ten
-- seconds and removes those of processes that have stopped writing theirs; a job's row has
-- its last run on any process. Nothing depends on the rows. The tables are new, so no table
-- that is in use is locked.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE processes (
    id         text        PRIMARY KEY,
    host       text        NOT NULL,
    version    text        NOT NULL,
    roles      text        NOT NULL,
    started_at timestamptz NOT NULL,
    seen_at    timestamptz NOT NULL,
    streams    bigint      NOT NULL,
    refused    bigint      NOT NULL
);
-- What each process has counted in a minute of the last hour: calls of the API, those refused by
-- limits, calls by how long they took, as a list of numbers, and how long the oldest message of
-- the queue had waited. A process writes a row a minute, and removes those older than an hour.
CREATE TABLE process_minutes (
    process  text COLLATE "C" NOT NULL,
    minute   timestamptz NOT NULL,
    calls    bigint NOT NULL,
    refused  bigint NOT NULL,
    latency  text NOT NULL,
    queue_ms bigint NOT NULL,
    PRIMARY KEY (minute, process)
);
CREATE TABLE job_runs (
    name         text PRIMARY KEY,
    started_at   timestamptz,
    succeeded_at timestamptz,
    failed_at    timestamptz,
    error        text NOT NULL
);

-- The parts of a data folder that stepboard move has copied: 'begun', tables, archived buckets as
-- board/bucket, and 'complete', without which nothing serves what was copied. folder is the name
-- of the move.
CREATE TABLE folder_moves (
    folder text        NOT NULL,
    part   text        NOT NULL,
    at     timestamptz NOT NULL,
    PRIMARY KEY (folder, part)
);
-- +goose StatementEnd
