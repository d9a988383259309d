-- Scores above a board's review_above, for operators to look at. The table is new, so no
-- table that is in use is locked.

-- +goose Up
-- +goose StatementBegin

-- A review is open until somebody dismisses it. An open one is updated when the score
-- rises; a dismissed one never changes, and a higher score makes another row.
CREATE TABLE reviews (
    id             bigint           GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    board          text COLLATE "C" NOT NULL,
    bucket         text COLLATE "C" NOT NULL,
    date           date,
    user_id        bigint           NOT NULL,
    score          bigint           NOT NULL,
    reached_at     timestamptz      NOT NULL,
    first_seen_at  timestamptz      NOT NULL,
    dismissed_at   timestamptz,
    dismissed_by   text             NOT NULL,
    dismiss_reason text             NOT NULL
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
