-- Addresses to which phones send totals, as in the Postgres migration of the same number.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE upload_addresses (
    id           integer  PRIMARY KEY AUTOINCREMENT,
    user_id      integer  NOT NULL,
    key_hash     blob     NOT NULL UNIQUE,
    board        text     NOT NULL,
    name         text     NOT NULL,
    time_zone    text     NOT NULL,
    created_at   datetime NOT NULL,
    last_used_at datetime,
    last_day     date,
    last_score   integer,
    last_code    text     NOT NULL DEFAULT ''
);
CREATE INDEX upload_addresses_user ON upload_addresses (user_id);
CREATE TABLE revoked_keys (
    key_hash   blob     PRIMARY KEY,
    revoked_at datetime NOT NULL
);
-- +goose StatementEnd
