-- Which scores of a board rank first, as in the Postgres migration of the same number. SQLite reads
-- the columns of a view each time, so bucket_states has the new one.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE boards ADD COLUMN score_order text NOT NULL DEFAULT 'high' CHECK (score_order IN ('high', 'low'));
ALTER TABLE board_buckets ADD COLUMN score_order text NOT NULL DEFAULT 'high' CHECK (score_order IN ('high', 'low'));
-- +goose StatementEnd
