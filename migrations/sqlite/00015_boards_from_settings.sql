-- Whether the settings have named a board, as in the Postgres migration of the same number.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE boards ADD COLUMN from_settings boolean NOT NULL DEFAULT false;
-- +goose StatementEnd
