-- Whose tokens may upload scores, as in the Postgres migration of the same number.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE boards ADD COLUMN uploads text NOT NULL DEFAULT 'users' CHECK (uploads IN ('users', 'service'));
-- +goose StatementEnd
