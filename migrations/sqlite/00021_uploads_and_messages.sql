-- Whose tokens may upload scores, and what users are told, as in the Postgres migration of the same number.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE boards ADD COLUMN uploads text NOT NULL DEFAULT 'users' CHECK (uploads IN ('users', 'service'));
ALTER TABLE corrections ADD COLUMN message text NOT NULL DEFAULT '';
-- +goose StatementEnd
