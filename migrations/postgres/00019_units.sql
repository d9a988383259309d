-- What the scores of a board count, a word for people; empty if nobody has said it. The column has a
-- default because a version without it may write rows beside this one. With a constant default no row
-- is rewritten; boards is locked for a moment.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE boards ADD COLUMN unit text NOT NULL DEFAULT '';
-- +goose StatementEnd
