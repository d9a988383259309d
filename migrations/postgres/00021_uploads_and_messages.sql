-- Whose tokens may upload scores to a board. The column has a default because a version without it
-- may write rows beside this one. With a constant default no row is rewritten; boards is locked for a
-- moment.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE boards ADD COLUMN uploads text NOT NULL DEFAULT 'users' CHECK (uploads IN ('users', 'service'));
-- +goose StatementEnd
