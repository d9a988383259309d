-- Whether the settings have named a board, so that a start can say which boards they name no
-- more. It is false for boards that were only defined while the service ran, and for those stored
-- by a version without this column: the next start with their settings makes it true. The column
-- has a default because such a version may write rows beside this one. With a constant default no
-- row is rewritten; boards is locked for a moment.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE boards ADD COLUMN from_settings boolean NOT NULL DEFAULT false;
-- +goose StatementEnd
