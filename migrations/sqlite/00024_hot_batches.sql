-- What many users report at once. One table is new; nothing waits.

-- +goose Up
-- +goose StatementBegin

-- Each row has raises of one bucket, which wait here until they are moved to hot_scores: the users of
-- a batch are on as many pages of that table, and each page that changes is written as a whole. raises
-- is encoded as a change of package services/boards/board.
CREATE TABLE hot_batches (
    id     integer PRIMARY KEY AUTOINCREMENT,
    board  text NOT NULL,
    raises blob NOT NULL
);
-- +goose StatementEnd
