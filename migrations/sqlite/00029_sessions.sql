-- Sessions, codes, operators and newcomers, as in the Postgres migration of the same number.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE sessions (
    id           integer  PRIMARY KEY AUTOINCREMENT,
    user_id      integer  NOT NULL,
    key_hash     blob     NOT NULL UNIQUE,
    device       text     NOT NULL,
    time_zone    text     NOT NULL,
    created_at   datetime NOT NULL,
    last_used_at datetime NOT NULL
);
CREATE INDEX sessions_user ON sessions (user_id);
CREATE TABLE sign_in_codes (
    key_hash   blob     PRIMARY KEY,
    user_id    integer  UNIQUE,
    group_id   integer,
    created_at datetime NOT NULL,
    ends_at    datetime NOT NULL
);
CREATE TABLE operators (
    user_id    integer  PRIMARY KEY,
    key_hash   blob     NOT NULL UNIQUE,
    made_by    text     NOT NULL,
    created_at datetime NOT NULL
);
CREATE TABLE newcomers (
    user_id    integer  PRIMARY KEY,
    invited_by integer,
    group_id   integer,
    created_at datetime NOT NULL
);
CREATE INDEX newcomers_invited_by ON newcomers (invited_by);
CREATE TABLE sign_in_counts (
    what  text     NOT NULL,
    since datetime NOT NULL,
    n     integer  NOT NULL,
    PRIMARY KEY (what, since)
);
-- +goose StatementEnd
