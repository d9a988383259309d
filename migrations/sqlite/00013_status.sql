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
CREATE TABLE job_runs (
    name         text PRIMARY KEY,
    started_at   datetime,
    succeeded_at datetime,
    failed_at    datetime,
    error        text NOT NULL
);
-- +goose StatementEnd
