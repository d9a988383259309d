-- Sessions of devices, codes that open them, operators, and who has brought whom. All tables are new; nothing waits.

-- +goose Up
-- +goose StatementBegin

-- A device that is signed in. Its key is in a cookie, and only the key's SHA-256 is stored. last_used_at is to the
-- minute, and time_zone an IANA name, or empty.
CREATE TABLE sessions (
    id           bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id      bigint      NOT NULL,
    key_hash     bytea       NOT NULL UNIQUE,
    device       text        NOT NULL,
    time_zone    text        NOT NULL,
    created_at   timestamptz NOT NULL,
    last_used_at timestamptz NOT NULL
);
CREATE INDEX sessions_user ON sessions (user_id);

-- Codes that open one session, by their SHA-256. The first code of a service has no user: who uses it is the first
-- one. Whoever uses one with a group joins it.
CREATE TABLE sign_in_codes (
    key_hash   bytea       PRIMARY KEY,
    user_id    bigint      UNIQUE,
    group_id   bigint,
    created_at timestamptz NOT NULL,
    ends_at    timestamptz NOT NULL
);

-- Users who may ask for tokens of scope admin. key_hash is random, so that a restored database does not make
-- somebody an operator again.
CREATE TABLE operators (
    user_id    bigint      PRIMARY KEY,
    key_hash   bytea       NOT NULL UNIQUE,
    made_by    text        NOT NULL,
    created_at timestamptz NOT NULL
);

-- Who has come by an invitation: whose, or of which group. Without both they came by a card or as the first.
CREATE TABLE newcomers (
    user_id    bigint      PRIMARY KEY,
    invited_by bigint,
    group_id   bigint,
    created_at timestamptz NOT NULL
);
CREATE INDEX newcomers_invited_by ON newcomers (invited_by);

-- How often something has happened since the beginning of an hour or a day.
CREATE TABLE sign_in_counts (
    what  text        NOT NULL,
    since timestamptz NOT NULL,
    n     bigint      NOT NULL,
    PRIMARY KEY (what, since)
);
-- +goose StatementEnd
