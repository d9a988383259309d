-- Nothing: SQLite has a table for batches of uploads, as what is here is in Redis.

-- +goose Up
-- +goose StatementBegin
SELECT 1;
-- +goose StatementEnd
