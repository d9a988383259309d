-- Groups and their members. All tables are new, so no table that is in use is locked.

-- external_id is the id that clients see; group_id is the number by which everything else
-- refers to the group. Numbers are not used again after a group was deleted, as copies of
-- its members in Redis are named by the number.
--
-- Groups whose members a backend sets have no owner and no invite code.
--
-- A group may have one challenge: a span of days, both included.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE groups (
    group_id    integer  PRIMARY KEY AUTOINCREMENT,
    external_id text     NOT NULL UNIQUE,
    name        text     NOT NULL,
    owner_id    bigint,
    invite_code text     UNIQUE,
    created_at  datetime NOT NULL,
    challenge_from date,
    challenge_to   date,
    CHECK ((owner_id IS NULL) = (invite_code IS NULL)),
    CHECK ((challenge_from IS NULL) = (challenge_to IS NULL))
);

-- The limits are enforced by counting rows: those of a user under a lock on the row in
-- users, those of a group under a lock on the row in groups. Users are locked first,
-- ascending, then the group.
CREATE TABLE group_members (
    group_id  bigint   NOT NULL,
    user_id   bigint   NOT NULL,
    joined_at datetime NOT NULL,
    PRIMARY KEY (group_id, user_id)
);
CREATE INDEX group_members_user ON group_members (user_id);
-- +goose StatementEnd
