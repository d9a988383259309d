-- Whom users hide from, mute and block, as in the Postgres migration of the same number.

-- +goose Up
-- +goose StatementBegin

CREATE TABLE privacy_choices (
    user_id    integer  NOT NULL,
    kind       text     NOT NULL CHECK (kind IN ('hidden_from', 'muted', 'blocked')),
    other_id   integer  NOT NULL CHECK (other_id <> user_id),
    nickname   text     NOT NULL,
    avatar_url text     NOT NULL,
    created_at datetime NOT NULL,
    PRIMARY KEY (user_id, kind, other_id)
);
CREATE INDEX privacy_choices_other ON privacy_choices (other_id, user_id) WHERE kind <> 'muted';

CREATE VIEW not_shown AS
    SELECT other_id AS viewer_id, user_id FROM privacy_choices WHERE kind <> 'muted'
    UNION ALL
    SELECT user_id AS viewer_id, other_id AS user_id FROM privacy_choices WHERE kind IN ('muted', 'blocked');
-- +goose StatementEnd
