-- Whose tokens may upload scores to a board, and what users are told of corrections. The columns have a
-- default because a version without them may write rows beside this one. With a constant default no row
-- is rewritten; each table is locked for a moment.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE boards ADD COLUMN uploads text NOT NULL DEFAULT 'users' CHECK (uploads IN ('users', 'service'));
ALTER TABLE corrections ADD COLUMN message text NOT NULL DEFAULT '';
-- +goose StatementEnd
