-- Totals above a board's hold_above, as in the Postgres migration of the same number.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE boards ADD COLUMN hold_above bigint NOT NULL DEFAULT 0 CHECK (hold_above >= 0 AND hold_above < max_score);

CREATE TABLE held_scores (
    id         integer  PRIMARY KEY AUTOINCREMENT,
    board      text     NOT NULL,
    bucket     text     NOT NULL,
    day        date     NOT NULL,
    user_id    integer  NOT NULL,
    score      integer  NOT NULL,
    reached_at datetime NOT NULL,
    held_at    datetime NOT NULL,
    state      text     NOT NULL CHECK (state IN ('open', 'rejected', 'released')),
    decided_at datetime,
    decided_by text     NOT NULL DEFAULT '',
    reason     text     NOT NULL DEFAULT '',
    message    text     NOT NULL DEFAULT '',
    written_at datetime,
    UNIQUE (board, bucket, user_id),
    CHECK ((state = 'open') = (decided_at IS NULL))
);
CREATE INDEX held_scores_state ON held_scores (state, id);
CREATE INDEX held_scores_unwritten ON held_scores (id) WHERE state = 'released' AND written_at IS NULL;
CREATE INDEX held_scores_user ON held_scores (user_id);
CREATE INDEX held_scores_day ON held_scores (day);
-- +goose StatementEnd
