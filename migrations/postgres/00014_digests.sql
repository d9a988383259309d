-- Digests of days: what users are told in the evening. The table is new, so no table that is in
-- use is locked.

-- +goose Up
-- +goose StatementBegin

-- Users are worked on in the order of their row ids. Those up to last_user are done: the row is
-- updated in the transaction that writes their outcome, so a digest goes on there after a crash.
CREATE TABLE digests (
    board       text        COLLATE "C" NOT NULL,
    day         date        NOT NULL,
    last_user   bigint      NOT NULL,
    users       bigint      NOT NULL,
    started_at  timestamptz NOT NULL,
    finished_at timestamptz,
    PRIMARY KEY (board, day)
);
-- +goose StatementEnd
