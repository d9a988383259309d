-- Erasures of users, and indexes by which all that names a user is found. The tables are
-- new. The other tables are new in this release, too, so the indexes are made of empty
-- tables.

-- +goose Up
-- +goose StatementBegin

-- One row for each user who was or is being erased. It is inserted by the transaction
-- that deletes the user's row in users, so from then on nobody has row_id. It is never
-- deleted: processes, and runs of the archive, drop what names row_id.
-- user_id is the user's own id, as long as the sweeps need it to find keys in Redis.
-- user_hash is the HMAC of user id and row id; by it the erasure is repeated after an
-- older backup was restored.
-- removed is the number of rows, keys and entries that the last sweep has removed.
CREATE TABLE erasures (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    row_id      bigint      NOT NULL UNIQUE,
    user_id     text        COLLATE "C",
    user_hash   bytea       NOT NULL,
    begun_at    timestamptz NOT NULL,
    swept_at    timestamptz,
    sweeps      integer     NOT NULL,
    removed     bigint      NOT NULL,
    finished_at timestamptz,
    CHECK ((user_id IS NULL) = (finished_at IS NOT NULL))
);
CREATE INDEX erasures_unfinished ON erasures (user_id) WHERE finished_at IS NULL;
CREATE INDEX erasures_begun ON erasures (begun_at);

-- The key of user_hash: one row, inserted by the first erasure.
CREATE TABLE erasure_keys (
    id         bigint      PRIMARY KEY,
    secret     bytea       NOT NULL,
    created_at timestamptz NOT NULL
);

CREATE INDEX friend_requests_other ON friend_requests (other_id);
CREATE INDEX privacy_choices_muted ON privacy_choices (other_id) WHERE kind = 'muted';
CREATE INDEX groups_owner ON groups (owner_id) WHERE owner_id IS NOT NULL;
CREATE INDEX reported_scores_user ON reported_scores (user_id);
CREATE INDEX reviews_of ON reviews (user_id);
CREATE INDEX score_events_user ON score_events (user_id);
-- +goose StatementEnd
