-- Corrections of scores, as in the Postgres migration of the same number.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE corrections (
    id           integer  PRIMARY KEY AUTOINCREMENT,
    board        text     NOT NULL,
    bucket       text,
    day          date     NOT NULL,
    until_day    date,
    user_id      integer  NOT NULL,
    kind         text     NOT NULL CHECK (kind IN ('set', 'exclude')),
    score        integer  CHECK (score >= 0),
    reached_at   datetime,
    reason       text     NOT NULL,
    actor        text     NOT NULL,
    before_score integer,
    before_at    datetime,
    created_at   datetime NOT NULL,
    lifted_at    datetime,
    lifted_by    text     NOT NULL DEFAULT '',
    lift_reason  text     NOT NULL DEFAULT '',
    hot          boolean  NOT NULL,
    CHECK ((kind = 'set') = (score IS NOT NULL) AND (kind = 'set') = (reached_at IS NOT NULL)),
    CHECK (bucket IS NOT NULL OR kind = 'exclude'),
    CHECK ((before_score IS NULL) = (before_at IS NULL))
);
CREATE INDEX corrections_hot ON corrections (id) WHERE hot;
CREATE INDEX corrections_user ON corrections (user_id, board);
CREATE INDEX corrections_bucket ON corrections (board, bucket);
CREATE UNIQUE INDEX corrections_one ON corrections (user_id, board, bucket) WHERE lifted_at IS NULL AND bucket IS NOT NULL;
CREATE UNIQUE INDEX corrections_one_open ON corrections (user_id, board) WHERE lifted_at IS NULL AND bucket IS NULL;

CREATE TABLE pending_corrections (
    board         text    NOT NULL,
    bucket        text    NOT NULL,
    correction_id integer NOT NULL,
    PRIMARY KEY (board, bucket, correction_id)
);
CREATE INDEX pending_corrections_of ON pending_corrections (correction_id);

CREATE TABLE reported_scores (
    board      text     NOT NULL,
    bucket     text     NOT NULL,
    user_id    integer  NOT NULL,
    score      integer  NOT NULL,
    reached_at datetime NOT NULL,
    PRIMARY KEY (board, bucket, user_id)
);
-- +goose StatementEnd
