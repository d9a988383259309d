-- What events take and how they end, as in the Postgres migration of the same number. SQLite can't
-- change a CHECK, so the increments are copied to a new table: a minute for ten million, and the
-- room of the table once more.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE boards ADD COLUMN takes text NOT NULL DEFAULT '';
ALTER TABLE boards ADD COLUMN late integer NOT NULL DEFAULT 0 CHECK (late >= 0);
ALTER TABLE boards ADD COLUMN latest_end datetime;

ALTER TABLE board_buckets ADD COLUMN best boolean NOT NULL DEFAULT false;
ALTER TABLE board_buckets ADD COLUMN final_at datetime;
UPDATE board_buckets SET final_at = closes_at
    WHERE from_ledger AND window_hours = 0 AND closes_at <= strftime('%Y-%m-%d %H:%M:%f', 'now');

ALTER TABLE score_events RENAME TO score_events_before;
DROP INDEX score_events_accepted;
DROP INDEX score_events_user;
CREATE TABLE score_events (
    board       text     NOT NULL,
    event_id    text     NOT NULL,
    total       text     NOT NULL,
    user_id     integer  NOT NULL,
    delta       integer  NOT NULL CHECK (delta >= 0),
    accepted_at datetime NOT NULL,
    score       integer  NOT NULL,
    reached_at  datetime NOT NULL,
    PRIMARY KEY (board, event_id)
);
INSERT INTO score_events SELECT board, event_id, total, user_id, delta, accepted_at, score, reached_at FROM score_events_before;
DROP TABLE score_events_before;
CREATE INDEX score_events_accepted ON score_events (accepted_at);
CREATE INDEX score_events_user ON score_events (user_id);
-- +goose StatementEnd
