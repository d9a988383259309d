-- Erasures of users, and indexes by which all that names a user is found. The tables are
-- new. The other tables are new in this release, too, so the indexes are made of empty
-- tables.

-- +goose Up
-- +goose StatementBegin

-- One row for each user who was or is being erased. It is inserted by the transaction
-- that deletes the user's row in users, so from then on nobody has row_id. It is never
-- deleted: processes, and runs of the archive, drop what names row_id.
-- user_id is the user's own id, as long as the sweeps need it to find keys in Redis.
-- user_hash is the HMAC of user id and row id, 32 bytes, followed by those of the user's
-- former ids; by them the erasure is repeated after an older backup was restored.
--
-- id_hash is the HMAC of the user id alone, by which the erasure is found when the id returns.
-- It stays for a day, and as long as something is kept that must hold again: in corrections and
-- friend_requests under row_id, in kept_choices, and in requests_sent to hidings_until, which are
-- those of the user's row in users. The statement that creates the user again sets returned_row,
-- the new row id. What is kept is moved to it then; moved says that nothing is left to move.
--
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
    id_hash        bytea,
    requests_sent  integer     NOT NULL,
    requests_until timestamptz,
    hidings        integer     NOT NULL,
    hidings_until  timestamptz,
    returned_row   bigint,
    moved          boolean     NOT NULL,
    CHECK ((user_id IS NULL) = (finished_at IS NOT NULL))
);
CREATE INDEX erasures_unfinished ON erasures (user_id) WHERE finished_at IS NULL;
CREATE INDEX erasures_begun ON erasures (begun_at);
CREATE INDEX erasures_id ON erasures (id_hash, id) WHERE id_hash IS NOT NULL;
CREATE INDEX erasures_returned ON erasures (returned_row) WHERE returned_row IS NOT NULL AND NOT moved;

-- The choices of others about users who were erased that hold again when the user id returns:
-- user_id has blocked or hidden from the user who had row_id.
CREATE TABLE kept_choices (
    user_id    bigint      NOT NULL,
    kind       text        NOT NULL CHECK (kind IN ('hidden_from', 'blocked')),
    row_id     bigint      NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (user_id, kind, row_id)
);
CREATE INDEX kept_choices_row ON kept_choices (row_id);

-- The key of both hashes: one row, inserted by the first process that starts.
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
