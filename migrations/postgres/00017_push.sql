-- What users want to be told of, and where. Two tables are new. webhook_deliveries gets a column that
-- is null for webhooks, and an empty index, for which it is read once: outcomes wait meanwhile, about
-- a second for a million rows.

-- +goose Up
-- +goose StatementBegin

-- One row for each browser of a user that is told by Web Push. A row without endpoint says what the
-- app is to be told of for its user; there is at most one.
--
-- An id is not used again, and the user of a row does not change: an endpoint that another user
-- brings gets a row of its own in place of the former one. So a delivery that waits for a
-- subscription can't reach somebody else.
--
-- An endpoint may be too long for an index, so its SHA-256 identifies it. Endpoint and keys are
-- stored as they are: they only let somebody send who also has the key of push_keys, which is in
-- this database as well.
CREATE TABLE push_subscriptions (
    id            bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id       bigint      NOT NULL,
    endpoint      text,
    endpoint_hash bytea       UNIQUE,
    p256dh        bytea,
    auth          bytea,
    tell_passed   boolean     NOT NULL,
    tell_likes    boolean     NOT NULL,
    tell_requests boolean     NOT NULL,
    tell_digest   boolean     NOT NULL,
    time_zone     text        NOT NULL,
    created_at    timestamptz NOT NULL,
    CHECK (tell_passed OR tell_likes OR tell_requests OR tell_digest),
    CHECK ((endpoint IS NULL) = (endpoint_hash IS NULL) AND (endpoint IS NULL) = (p256dh IS NULL) AND (endpoint IS NULL) = (auth IS NULL))
);

-- Subscriptions are looked up by user. Those who want to hear who passes them, or to get a digest,
-- are read in the order of their row ids.
CREATE INDEX push_subscriptions_user ON push_subscriptions (user_id);
CREATE UNIQUE INDEX push_subscriptions_app ON push_subscriptions (user_id) WHERE endpoint IS NULL;
CREATE INDEX push_subscriptions_passed ON push_subscriptions (user_id) WHERE tell_passed;
CREATE INDEX push_subscriptions_digest ON push_subscriptions (user_id) WHERE tell_digest;

-- The key that push services know this service by. Subscriptions are bound to it, so it is made
-- once, on the first start with push.subject, and never changes.
CREATE TABLE push_keys (
    id     bigint PRIMARY KEY CHECK (id = 1),
    secret bytea  NOT NULL
);

ALTER TABLE webhook_deliveries ADD COLUMN subscription_id bigint;

-- Finished notices are deleted sooner than webhooks.
CREATE INDEX webhook_deliveries_notices ON webhook_deliveries (finished_at) WHERE subscription_id IS NOT NULL AND finished_at IS NOT NULL;
-- +goose StatementEnd
