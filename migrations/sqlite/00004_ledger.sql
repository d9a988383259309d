-- Increments of event and rolling boards, as in the Postgres migration of the same
-- number.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE score_events (
    board       text     NOT NULL,
    event_id    text     NOT NULL,
    total       text     NOT NULL,
    user_id     integer  NOT NULL,
    delta       integer  NOT NULL CHECK (delta >= 1),
    accepted_at datetime NOT NULL,
    score       integer  NOT NULL,
    reached_at  datetime NOT NULL,
    PRIMARY KEY (board, event_id)
);
CREATE INDEX score_events_accepted ON score_events (accepted_at);

CREATE TABLE score_totals (
    board      text     NOT NULL,
    user_id    integer  NOT NULL,
    total      text     NOT NULL,
    score      integer  NOT NULL CHECK (score >= 0),
    reached_at datetime NOT NULL,
    PRIMARY KEY (board, user_id, total)
);
-- +goose StatementEnd
