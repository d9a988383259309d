-- Final competitions whose archived days have changed since. Nothing waits: both columns are empty.

-- +goose Up
-- +goose StatementBegin

-- final_runs is the sum of the numbers of the last archive runs of all days when the latest final standing was made,
-- null if that was before this migration. changed_at is when one of the days was seen to have been archived again
-- since; null if none was.
ALTER TABLE competitions ADD COLUMN final_runs bigint;
ALTER TABLE competitions ADD COLUMN changed_at timestamptz;
-- +goose StatementEnd
