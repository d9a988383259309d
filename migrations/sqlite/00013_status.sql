-- The state of processes and jobs, as in the Postgres migration of the same number.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE processes (
    id         text     PRIMARY KEY,
    host       text     NOT NULL,
    version    text     NOT NULL,
    roles      text     NOT NULL,
    started_at datetime NOT NULL,
    seen_at    datetime NOT NULL,
    streams    bigint   NOT NULL,
    refused    bigint   NOT NULL
);
-- What each process has counted in a minute of the last hour: calls of the API, those refused by
-- limits, calls by how long they took, as a list of numbers, and how long the oldest message of
-- the queue had waited. A process writes a row a minute, and removes those older than an hour.
CREATE TABLE process_minutes (
    process  text NOT NULL,
    minute   datetime NOT NULL,
    calls    bigint NOT NULL,
    refused  bigint NOT NULL,
    latency  text NOT NULL,
    queue_ms bigint NOT NULL,
    PRIMARY KEY (minute, process)
);
CREATE TABLE job_runs (
    name         text PRIMARY KEY,
    started_at   datetime,
    succeeded_at datetime,
    failed_at    datetime,
    error        text NOT NULL
);
-- +goose StatementEnd
