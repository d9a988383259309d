-- Increments of event and rolling boards. All tables are new.

-- +goose Up
-- +goose StatementBegin
-- One row for each increment that was counted, so that an event id counts once.
-- The primary key has the id and not the user, because an id must be unique over
-- all users of a board. Rows are inserted roughly in the order of accepted_at, so
-- a BRIN index finds the last minutes and the oldest months at very low cost.
-- autosummarize indexes new pages before the next vacuum; every query would have
-- to read them otherwise.
CREATE TABLE score_events (
    board       text COLLATE "C" NOT NULL,
    event_id    text COLLATE "C" NOT NULL,
    total       text COLLATE "C" NOT NULL,
    user_id     bigint           NOT NULL,
    delta       bigint           NOT NULL CHECK (delta >= 1),
    accepted_at timestamptz      NOT NULL,
    score       bigint           NOT NULL,
    reached_at  timestamptz      NOT NULL,
    PRIMARY KEY (board, event_id)
);
CREATE INDEX score_events_accepted ON score_events USING brin (accepted_at) WITH (autosummarize = on);

-- Running totals, updated in the transaction that inserts the increments. A user's
-- totals of a board are adjacent in the primary key, because the hours of a rolling
-- board are summed. fillfactor leaves room on each page, so that updates stay on
-- the page and change no index.
CREATE TABLE score_totals (
    board      text COLLATE "C" NOT NULL,
    user_id    bigint           NOT NULL,
    total      text COLLATE "C" NOT NULL,
    score      bigint           NOT NULL CHECK (score >= 0),
    reached_at timestamptz      NOT NULL,
    PRIMARY KEY (board, user_id, total)
) WITH (fillfactor = 70);
-- +goose StatementEnd
