-- Corrections of scores. All tables are new, so no table that is in use is locked.

-- +goose Up
-- +goose StatementBegin

-- One row for each decision of an operator about a user's score; rows are never deleted.
--
-- bucket is null for an exclusion that holds from `day` on, until it is lifted. Otherwise
-- day is the day of the bucket. until_day is set when such an exclusion is lifted: no process
-- has kept reports of later days from the board.
--
-- hot is true while a bucket that the correction concerns may be in Redis. Every process
-- reads these rows every few seconds, so they have an index of their own.
--
-- Whoever inserts or lifts a correction locks the user's row in users, and then the rows
-- in board_buckets. So at most one correction holds for a user and bucket; the unique
-- indexes catch two of the same kind only.
CREATE TABLE corrections (
    id           bigint           GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    board        text COLLATE "C" NOT NULL,
    bucket       text COLLATE "C",
    day          date             NOT NULL,
    until_day    date,
    user_id      bigint           NOT NULL,
    kind         text             NOT NULL CHECK (kind IN ('set', 'exclude')),
    score        bigint           CHECK (score >= 0),
    reached_at   timestamptz,
    reason       text             NOT NULL,
    actor        text             NOT NULL,
    before_score bigint,
    before_at    timestamptz,
    created_at   timestamptz      NOT NULL,
    lifted_at    timestamptz,
    lifted_by    text             NOT NULL DEFAULT '',
    lift_reason  text             NOT NULL DEFAULT '',
    hot          boolean          NOT NULL,
    CHECK ((kind = 'set') = (score IS NOT NULL) AND (kind = 'set') = (reached_at IS NOT NULL)),
    CHECK (bucket IS NOT NULL OR kind = 'exclude'),
    CHECK ((before_score IS NULL) = (before_at IS NULL))
);
CREATE INDEX corrections_hot ON corrections (id) WHERE hot;
CREATE INDEX corrections_user ON corrections (user_id, board);
CREATE INDEX corrections_bucket ON corrections (board, bucket);
CREATE UNIQUE INDEX corrections_one ON corrections (user_id, board, bucket) WHERE lifted_at IS NULL AND bucket IS NOT NULL;
CREATE UNIQUE INDEX corrections_one_open ON corrections (user_id, board) WHERE lifted_at IS NULL AND bucket IS NULL;

-- The archived buckets that a correction has yet to change, or its lifting. A row is
-- inserted under the lock on the bucket's row, and deleted by the archive run that
-- has applied it.
CREATE TABLE pending_corrections (
    board         text COLLATE "C" NOT NULL,
    bucket        text COLLATE "C" NOT NULL,
    correction_id bigint           NOT NULL,
    PRIMARY KEY (board, bucket, correction_id)
);
CREATE INDEX pending_corrections_of ON pending_corrections (correction_id);

-- What users with a correction have reported for an archived bucket: the score that
-- counts once the correction is lifted.
CREATE TABLE reported_scores (
    board      text COLLATE "C" NOT NULL,
    bucket     text COLLATE "C" NOT NULL,
    user_id    bigint           NOT NULL,
    score      bigint           NOT NULL,
    reached_at timestamptz      NOT NULL,
    PRIMARY KEY (board, bucket, user_id)
);
-- +goose StatementEnd
