-- Browsers whose push service refuses this service. Nothing waits: both columns have constant defaults.

-- +goose Up
-- +goose StatementBegin

-- refusals is in how many hours since the last success a push service has refused a notice for another reason than load,
-- and refused_at when the last of these began; null for never.
ALTER TABLE push_subscriptions ADD COLUMN refusals integer NOT NULL DEFAULT 0;
ALTER TABLE push_subscriptions ADD COLUMN refused_at timestamptz;
-- +goose StatementEnd
