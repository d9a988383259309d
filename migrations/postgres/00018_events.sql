-- What events take (the best or the sum, increments of 0, increments that say when they occurred),
-- and how they end. The tables are locked for a moment; only board_buckets is read, and of it the
-- rows of events that are over are written.

-- +goose Up
-- +goose StatementBegin

-- takes is empty for the default of the kind. late is in nanoseconds.
ALTER TABLE boards ADD COLUMN takes text NOT NULL DEFAULT '', ADD COLUMN late bigint NOT NULL DEFAULT 0 CHECK (late >= 0),
    ADD COLUMN latest_end timestamptz;

-- An event's row changes: ends_at moves to a later time, with closes_at, cold_at and day, and final_at
-- is set once. Transactions that count increments lock the row FOR KEY SHARE, whoever sets final_at
-- locks it FOR UPDATE, and everybody else FOR NO KEY UPDATE.
ALTER TABLE board_buckets ADD COLUMN best boolean NOT NULL DEFAULT false, ADD COLUMN final_at timestamptz;
UPDATE board_buckets SET final_at = closes_at WHERE from_ledger AND window_hours = 0 AND closes_at <= now();

-- A view keeps the columns that its table had.
DROP VIEW bucket_states;
CREATE VIEW bucket_states AS
    SELECT b.*, EXISTS (
        SELECT 1 FROM board_archives a WHERE a.board = b.board AND a.bucket = b.bucket AND a.state = 'complete') AS archived
    FROM board_buckets b;

-- Rows from before keep the condition that the new ones relax, so none is read.
ALTER TABLE score_events DROP CONSTRAINT score_events_delta_check,
    ADD CONSTRAINT score_events_delta_check CHECK (delta >= 0) NOT VALID;
-- +goose StatementEnd
