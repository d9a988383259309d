-- What the scores of a board count, as in the Postgres migration of the same number.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE boards ADD COLUMN unit text NOT NULL DEFAULT '';
-- +goose StatementEnd
