-- Addresses to which phones send the totals of a user's days. Two tables are new; nothing waits.

-- +goose Up
-- +goose StatementBegin

-- Whoever has the key of an address may upload for its user, so only the key's SHA-256 is stored. The
-- key is 160 random bits, so a hash needs no salt. last_day, last_score and last_code say what the last
-- call but those of the same minute led to.
CREATE TABLE upload_addresses (
    id           bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id      bigint      NOT NULL,
    key_hash     bytea       NOT NULL UNIQUE,
    board        text        NOT NULL,
    name         text        NOT NULL,
    time_zone    text        NOT NULL,
    created_at   timestamptz NOT NULL,
    last_used_at timestamptz,
    last_day     date,
    last_score   bigint,
    last_code    text        NOT NULL DEFAULT ''
);
CREATE INDEX upload_addresses_user ON upload_addresses (user_id);

-- The hashes of keys that were revoked, for ever: a backup that is restored must not bring one back.
CREATE TABLE revoked_keys (
    key_hash   bytea       PRIMARY KEY,
    revoked_at timestamptz NOT NULL
);
-- +goose StatementEnd
