-- Nothing reads these columns, and from now on nothing writes them. Processes of the version before
-- still write them beside this one, so they stay until a later version, without NOT NULL. Each
-- table is locked for a moment, and no row is read.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE boards ALTER COLUMN updated_at DROP NOT NULL;
ALTER TABLE board_results ALTER COLUMN sent_at DROP NOT NULL;
ALTER TABLE row_id_gaps ALTER COLUMN created_at DROP NOT NULL;
ALTER TABLE erasure_keys ALTER COLUMN created_at DROP NOT NULL;
-- +goose StatementEnd
