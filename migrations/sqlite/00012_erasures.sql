-- Erasures of users, as in the Postgres migration of the same number.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE erasures (
    id          integer  PRIMARY KEY AUTOINCREMENT,
    row_id      bigint   NOT NULL UNIQUE,
    user_id     text,
    user_hash   blob     NOT NULL,
    begun_at    datetime NOT NULL,
    swept_at    datetime,
    sweeps      integer  NOT NULL,
    removed     bigint   NOT NULL,
    finished_at datetime,
    id_hash        blob,
    requests_sent  integer  NOT NULL,
    requests_until datetime,
    hidings        integer  NOT NULL,
    hidings_until  datetime,
    returned_row   bigint,
    moved          boolean  NOT NULL,
    CHECK ((user_id IS NULL) = (finished_at IS NOT NULL))
);
CREATE INDEX erasures_unfinished ON erasures (user_id) WHERE finished_at IS NULL;
CREATE INDEX erasures_begun ON erasures (begun_at);
CREATE INDEX erasures_id ON erasures (id_hash, id) WHERE id_hash IS NOT NULL;
CREATE INDEX erasures_returned ON erasures (returned_row) WHERE returned_row IS NOT NULL AND NOT moved;

CREATE TABLE kept_choices (
    user_id    integer  NOT NULL,
    kind       text     NOT NULL CHECK (kind IN ('hidden_from', 'blocked')),
    row_id     integer  NOT NULL,
    created_at datetime NOT NULL,
    PRIMARY KEY (user_id, kind, row_id)
);
CREATE INDEX kept_choices_row ON kept_choices (row_id);

CREATE TABLE erasure_keys (
    id         bigint   PRIMARY KEY,
    secret     blob     NOT NULL,
    created_at datetime NOT NULL
);

CREATE INDEX friend_requests_other ON friend_requests (other_id);
CREATE INDEX privacy_choices_muted ON privacy_choices (other_id) WHERE kind = 'muted';
CREATE INDEX groups_owner ON groups (owner_id) WHERE owner_id IS NOT NULL;
CREATE INDEX reported_scores_user ON reported_scores (user_id);
CREATE INDEX reviews_of ON reviews (user_id);
CREATE INDEX score_events_user ON score_events (user_id);
-- +goose StatementEnd
