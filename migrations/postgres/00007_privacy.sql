-- Whom users hide from, mute and block. The table is new, so no table that is in use is
-- locked. That a user hides from everybody is in users.hidden.

-- +goose Up
-- +goose StatementBegin

-- user_id has made the choice, other_id is the one it is about. nickname and avatar_url are
-- the other's at that time if they were visible to the user, because the two were friends or
-- the other had asked, and otherwise empty. The user's list shows them, and so gives away
-- neither the name of any user id nor what somebody who hides is called later.
CREATE TABLE privacy_choices (
    user_id    bigint      NOT NULL,
    kind       text        NOT NULL CHECK (kind IN ('hidden_from', 'muted', 'blocked')),
    other_id   bigint      NOT NULL CHECK (other_id <> user_id),
    nickname   text        NOT NULL,
    avatar_url text        NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (user_id, kind, other_id)
);
CREATE INDEX privacy_choices_other ON privacy_choices (other_id, user_id) WHERE kind <> 'muted';

-- The scores of user_id are not shown to viewer_id, because of a choice of either. Those
-- who hide from everybody are not in it. Reading one viewer's rows uses the key and the
-- index.
CREATE VIEW not_shown AS
    SELECT other_id AS viewer_id, user_id FROM privacy_choices WHERE kind <> 'muted'
    UNION ALL
    SELECT user_id AS viewer_id, other_id AS user_id FROM privacy_choices WHERE kind IN ('muted', 'blocked');
-- +goose StatementEnd
