-- What operators have changed, as in the Postgres migration of the same number.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE audit_log (
    id         integer  PRIMARY KEY AUTOINCREMENT,
    at         datetime NOT NULL,
    actor      text     NOT NULL,
    action     text     NOT NULL,
    board      text     NOT NULL,
    bucket     text     NOT NULL,
    user_id    bigint,
    target     text     NOT NULL,
    reason     text     NOT NULL,
    request_id text     NOT NULL,
    outcome    text     NOT NULL
);
CREATE INDEX audit_log_user ON audit_log (user_id, id DESC) WHERE user_id IS NOT NULL;
-- +goose StatementEnd
