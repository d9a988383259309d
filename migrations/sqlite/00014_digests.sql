-- Digests of days, as in the Postgres migration of the same number.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE digests (
    board       text     NOT NULL,
    day         date     NOT NULL,
    last_user   integer  NOT NULL,
    users       integer  NOT NULL,
    started_at  datetime NOT NULL,
    finished_at datetime,
    PRIMARY KEY (board, day)
);
-- +goose StatementEnd
