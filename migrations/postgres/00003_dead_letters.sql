-- Updates that were accepted into a queue and can't be applied, until somebody
-- has looked at them. A new table, so nothing is locked. A message is kept
-- once, however often it is delivered.

-- +goose Up
CREATE TABLE dead_letters (
    id        bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    position  text        NOT NULL UNIQUE,
    reason    text        NOT NULL,
    payload   bytea       NOT NULL,
    queued_at timestamptz NOT NULL,
    failed_at timestamptz NOT NULL
);
