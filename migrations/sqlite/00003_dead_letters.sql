-- Updates that can't be applied, as in the Postgres migration of the same number.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE dead_letters (
    id        integer  PRIMARY KEY AUTOINCREMENT,
    position  text     NOT NULL UNIQUE,
    reason    text     NOT NULL,
    board     text     NOT NULL,
    bucket    text     NOT NULL,
    payload   blob     NOT NULL,
    queued_at datetime NOT NULL,
    failed_at datetime NOT NULL
);
-- +goose StatementEnd
