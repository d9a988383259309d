-- Increments of event and rolling boards, and what their boards are.
--
-- Adding columns with constant defaults rewrites nothing; the tables are new.

-- +goose Up
ALTER TABLE boards
    ADD COLUMN starts_at    timestamptz,
    ADD COLUMN ends_at      timestamptz,
    ADD COLUMN window_hours integer NOT NULL DEFAULT 0;
ALTER TABLE board_buckets ADD COLUMN window_hours integer NOT NULL DEFAULT 0;

-- One row for each increment that was counted, so that the same id counts
-- once. It is spread by its id and not by user: an id must be unique whoever
-- it names. Rows come in the order of accepted_at, near enough, so a BRIN index
-- finds the last minutes and the oldest months at next to no cost. It is told
-- of new pages at once, not when the table is vacuumed: until then they would be
-- read by whoever looks for others.
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

-- The running totals, updated in the transaction that inserts the increments.
-- A user's totals of a board lie together, as the hours of a rolling board are
-- summed; room is left on each page, so that updates stay on it and touch no
-- index.
CREATE TABLE score_totals (
    board      text COLLATE "C" NOT NULL,
    user_id    bigint           NOT NULL,
    total      text COLLATE "C" NOT NULL,
    score      bigint           NOT NULL CHECK (score >= 0),
    reached_at timestamptz      NOT NULL,
    PRIMARY KEY (board, user_id, total)
) WITH (fillfactor = 70);
