-- Columns that nothing reads may be null, as in the Postgres migration of the same number. SQLite
-- can't change a column, so each is made anew, without its values.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE boards DROP COLUMN updated_at;
ALTER TABLE boards ADD COLUMN updated_at datetime;
ALTER TABLE board_results DROP COLUMN sent_at;
ALTER TABLE board_results ADD COLUMN sent_at datetime;
ALTER TABLE row_id_gaps DROP COLUMN created_at;
ALTER TABLE row_id_gaps ADD COLUMN created_at datetime;
ALTER TABLE erasure_keys DROP COLUMN created_at;
ALTER TABLE erasure_keys ADD COLUMN created_at datetime;
-- +goose StatementEnd
