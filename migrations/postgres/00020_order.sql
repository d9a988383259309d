-- Which scores of a board rank first. A bucket keeps the order that it was made with, as it does its
-- largest score, because both decide how its scores are stored: of a bucket with the order low
-- max_score - score is. The columns have a default because a version without them may write rows
-- beside this one; with a constant default no row is rewritten. Both tables are locked for a moment.
--
-- The view is made anew, as its b.* stands for the columns of the time when it was made.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE boards ADD COLUMN score_order text NOT NULL DEFAULT 'high' CHECK (score_order IN ('high', 'low'));
ALTER TABLE board_buckets ADD COLUMN score_order text NOT NULL DEFAULT 'high' CHECK (score_order IN ('high', 'low'));

DROP VIEW bucket_states;
CREATE VIEW bucket_states AS
    SELECT b.*, EXISTS (
        SELECT 1 FROM board_archives a WHERE a.board = b.board AND a.bucket = b.bucket AND a.state = 'complete') AS archived
    FROM board_buckets b;
-- +goose StatementEnd
