-- Updates that were accepted into a queue but can't be applied. They stay until an
-- operator has handled them. position is unique, so that a message delivered more
-- than once is stored once. board and bucket are those of the update, so that operators
-- can select by them; empty if the message can't be decoded. The table is new, so no table that is in use is locked.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE dead_letters (
    id        bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    position  text        NOT NULL UNIQUE,
    reason    text        NOT NULL,
    board     text        NOT NULL,
    bucket    text        NOT NULL,
    payload   bytea       NOT NULL,
    queued_at timestamptz NOT NULL,
    failed_at timestamptz NOT NULL
);
-- +goose StatementEnd
