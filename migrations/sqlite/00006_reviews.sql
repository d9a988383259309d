-- Scores above a board's review_above, as in the Postgres migration of the same number.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE reviews (
    id             integer  PRIMARY KEY AUTOINCREMENT,
    board          text     NOT NULL,
    bucket         text     NOT NULL,
    date           date,
    user_id        integer  NOT NULL,
    score          integer  NOT NULL,
    reached_at     datetime NOT NULL,
    first_seen_at  datetime NOT NULL,
    dismissed_at   datetime,
    dismissed_by   text     NOT NULL,
    dismiss_reason text     NOT NULL
);
CREATE UNIQUE INDEX reviews_open ON reviews (board, bucket, user_id) WHERE dismissed_at IS NULL;
CREATE INDEX reviews_user ON reviews (board, bucket, user_id);
CREATE INDEX reviews_newest ON reviews (id) WHERE dismissed_at IS NULL;
-- The reviews to look at: those that are open, and whose score no correction replaces.
CREATE VIEW open_reviews AS
SELECT r.* FROM reviews r
WHERE r.dismissed_at IS NULL AND NOT EXISTS (
    SELECT 1 FROM corrections c
    WHERE c.user_id = r.user_id AND c.board = r.board AND c.lifted_at IS NULL
        AND (c.bucket = r.bucket OR (c.bucket IS NULL AND c.day <= r.date)));
-- +goose StatementEnd
