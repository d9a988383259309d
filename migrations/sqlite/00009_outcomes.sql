-- Outcomes on their way to webhooks. All tables are new, so no table that is in use is
-- locked.

-- +goose Up
-- +goose StatementBegin

-- One row for each outcome and target, inserted in the transaction of the outcome's
-- cause. The payload names people by row ids and is rendered when it is sent. A process
-- takes rows by moving next_attempt_at ahead, so a row whose process has died is sent
-- again when that time has come.
CREATE TABLE webhook_deliveries (
    id              integer     PRIMARY KEY AUTOINCREMENT,
    message_id      text        NOT NULL,
    target          text        NOT NULL,
    type            text        NOT NULL,
    payload         text        NOT NULL,
    state           text        NOT NULL CHECK (state IN ('waiting', 'delivered', 'failed', 'dropped')),
    attempts        integer     NOT NULL,
    created_at      datetime NOT NULL,
    next_attempt_at datetime NOT NULL,
    give_up_at      datetime NOT NULL,
    finished_at     datetime CHECK ((finished_at IS NULL) = (state = 'waiting')),
    UNIQUE (message_id, target)
);

-- Workers look for the waiting rows of their target and type. Rows are counted by target, and
-- those that have waited longest are given up first. A job deletes old rows.
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (target, type, next_attempt_at) WHERE state = 'waiting';
CREATE INDEX webhook_deliveries_waiting ON webhook_deliveries (target, give_up_at, id) WHERE state = 'waiting';
CREATE INDEX webhook_deliveries_failed ON webhook_deliveries (target, finished_at, id) WHERE state = 'failed';
CREATE INDEX webhook_deliveries_finished ON webhook_deliveries (finished_at) WHERE finished_at IS NOT NULL;

CREATE TABLE webhook_attempts (
    delivery_id bigint      NOT NULL,
    number      integer     NOT NULL,
    started_at  datetime NOT NULL,
    took_ms     bigint      NOT NULL,
    status      integer     NOT NULL,
    error       text        NOT NULL,
    PRIMARY KEY (delivery_id, number)
);

-- The latest result of each bucket that was sent, by its hash, so that only a changed
-- result is sent again.
CREATE TABLE board_results (
    board    text        NOT NULL,
    bucket   text        NOT NULL,
    revision integer     NOT NULL,
    hash     text        NOT NULL,
    sent_at  datetime NOT NULL,
    outdated boolean NOT NULL DEFAULT false,
    PRIMARY KEY (board, bucket)
);
-- +goose StatementEnd
