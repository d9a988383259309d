-- Likes of the days of daily boards, as in the Postgres migration of the same number.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE likes (
    user_id    integer  NOT NULL,
    day        date     NOT NULL,
    board      text     NOT NULL,
    liked_by   integer  NOT NULL CHECK (liked_by <> user_id),
    withdrawn  boolean  NOT NULL,
    created_at datetime NOT NULL,
    PRIMARY KEY (user_id, day, board, liked_by)
);
CREATE INDEX likes_given ON likes (liked_by);
CREATE INDEX likes_day ON likes (day);
-- +goose StatementEnd
