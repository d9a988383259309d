-- What users want to be told of, and where, as in the Postgres migration of the same number.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE push_subscriptions (
    id            integer  PRIMARY KEY AUTOINCREMENT,
    user_id       integer  NOT NULL,
    endpoint      text,
    endpoint_hash blob     UNIQUE,
    p256dh        blob,
    auth          blob,
    tell_passed   boolean  NOT NULL,
    tell_likes    boolean  NOT NULL,
    tell_requests boolean  NOT NULL,
    tell_digest   boolean  NOT NULL,
    time_zone     text     NOT NULL,
    created_at    datetime NOT NULL,
    CHECK (tell_passed OR tell_likes OR tell_requests OR tell_digest),
    CHECK ((endpoint IS NULL) = (endpoint_hash IS NULL) AND (endpoint IS NULL) = (p256dh IS NULL) AND (endpoint IS NULL) = (auth IS NULL))
);
CREATE INDEX push_subscriptions_user ON push_subscriptions (user_id);
CREATE UNIQUE INDEX push_subscriptions_app ON push_subscriptions (user_id) WHERE endpoint IS NULL;
CREATE INDEX push_subscriptions_passed ON push_subscriptions (user_id) WHERE tell_passed;
CREATE INDEX push_subscriptions_digest ON push_subscriptions (user_id) WHERE tell_digest;

CREATE TABLE push_keys (
    id     integer PRIMARY KEY CHECK (id = 1),
    secret blob    NOT NULL
);

ALTER TABLE webhook_deliveries ADD COLUMN subscription_id integer;
CREATE INDEX webhook_deliveries_notices ON webhook_deliveries (finished_at) WHERE subscription_id IS NOT NULL AND finished_at IS NOT NULL;
-- +goose StatementEnd
