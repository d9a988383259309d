-- Totals above a board's hold_above, which count only once an operator has released them. held_scores
-- is new, and boards is locked for a moment: with a constant default no row is rewritten. A version
-- without the column may write rows beside this one.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE boards ADD COLUMN hold_above bigint NOT NULL DEFAULT 0 CHECK (hold_above >= 0 AND hold_above < max_score);

-- One row for each bucket and user: the largest total that was held, and when it was reached. state
-- is open until an operator decides. A released row never changes again, except for written_at: it is
-- null until the writer of uploads has taken the total. Rows go with the month of their day in the
-- archive.
CREATE TABLE held_scores (
    id         bigint           GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    board      text COLLATE "C" NOT NULL,
    bucket     text COLLATE "C" NOT NULL,
    day        date             NOT NULL,
    user_id    bigint           NOT NULL,
    score      bigint           NOT NULL,
    reached_at timestamptz      NOT NULL,
    held_at    timestamptz      NOT NULL,
    state      text             NOT NULL CHECK (state IN ('open', 'rejected', 'released')),
    decided_at timestamptz,
    decided_by text             NOT NULL DEFAULT '',
    reason     text             NOT NULL DEFAULT '',
    message    text             NOT NULL DEFAULT '',
    written_at timestamptz,
    UNIQUE (board, bucket, user_id),
    CHECK ((state = 'open') = (decided_at IS NULL))
);
CREATE INDEX held_scores_state ON held_scores (state, id);
CREATE INDEX held_scores_unwritten ON held_scores (id) WHERE state = 'released' AND written_at IS NULL;
CREATE INDEX held_scores_user ON held_scores (user_id);
CREATE INDEX held_scores_day ON held_scores (day);
-- +goose StatementEnd
