-- Likes of the days of daily boards. The table is new, so no table that is in use is locked.

-- +goose Up
-- +goose StatementBegin

-- liked_by likes the score of user_id on a day of a board. A row is never deleted while the
-- day may be shown: a like that was withdrawn stays, so that giving it again is no news. There
-- is no counter, so that many people can like one day at the same time.
CREATE TABLE likes (
    user_id    bigint      NOT NULL,
    day        date        NOT NULL,
    board      text        COLLATE "C" NOT NULL,
    liked_by   bigint      NOT NULL CHECK (liked_by <> user_id),
    withdrawn  boolean     NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (user_id, day, board, liked_by)
);

-- What a user has liked is exported and erased, and old days are deleted, which are next to
-- each other in the table.
CREATE INDEX likes_given ON likes (liked_by);
CREATE INDEX likes_day ON likes USING brin (day);
-- +goose StatementEnd
