-- What operators have changed or tried to change. Rows are never deleted. user_id is the
-- user whom an action concerns; the row of an erased user names nobody. outcome is empty
-- while the action runs, and stays so if its process dies; done, or the code of an error.
-- The table is new, so no table that is in use is locked.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE audit_log (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at         timestamptz NOT NULL,
    actor      text        NOT NULL,
    action     text        NOT NULL,
    board      text        NOT NULL,
    bucket     text        NOT NULL,
    user_id    bigint,
    target     text        NOT NULL,
    reason     text        NOT NULL,
    request_id text        NOT NULL,
    outcome    text        NOT NULL
);
CREATE INDEX audit_log_user ON audit_log (user_id, id DESC) WHERE user_id IS NOT NULL;
-- +goose StatementEnd
