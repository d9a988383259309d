-- Board definitions, buckets, users and the friend graph. All tables are new, so
-- no table that is in use is locked.
--
-- The keys of tables about people begin with the user, so that a distributed
-- Postgres can distribute them by user. Each friendship has two rows, one for
-- each side, so that either side's list is one range of the primary key.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE boards (
    name          text        PRIMARY KEY,
    kind          text        NOT NULL,
    time_zone     text        NOT NULL,
    open_days     integer     NOT NULL CHECK (open_days BETWEEN 0 AND 30),
    max_score     bigint      NOT NULL CHECK (max_score >= 1),
    shards        integer     NOT NULL CHECK (shards >= 1),
    global        text        NOT NULL,
    change_stream boolean NOT NULL,
    review_above  bigint      NOT NULL CHECK (review_above BETWEEN 0 AND max_score - 1),
    starts_at     datetime,
    ends_at       datetime,
    window_hours  integer     NOT NULL,
    created_at    datetime NOT NULL,
    updated_at    datetime NOT NULL
);

-- A row is written on a bucket's first use and never changed, because it defines
-- how the bucket's entries in Redis and in the archive are decoded. day is the day of
-- the archive, and cold_at the time from which the bucket may be archived. Both are
-- stored, so that all replicas agree on them whatever their settings.
CREATE TABLE board_buckets (
    board         text        NOT NULL,
    bucket        text        NOT NULL,
    starts_at     datetime NOT NULL,
    ends_at       datetime NOT NULL,
    closes_at     datetime NOT NULL,
    tick_ms       bigint      NOT NULL CHECK (tick_ms >= 1),
    time_bits     integer     NOT NULL CHECK (time_bits BETWEEN 1 AND 52),
    max_score     bigint      NOT NULL CHECK (max_score >= 1),
    shards        integer     NOT NULL CHECK (shards >= 1),
    window_hours  integer     NOT NULL,
    from_ledger   boolean     NOT NULL,
    change_stream boolean NOT NULL,
    day           date        NOT NULL,
    cold_at       datetime NOT NULL,
    created_at    datetime NOT NULL,
    PRIMARY KEY (board, bucket)
);
CREATE INDEX board_buckets_day ON board_buckets (board, day);

-- What was reported for daily boards and is not archived yet, before corrections: the largest
-- composite of each user in each bucket.
CREATE TABLE hot_scores (
    board     text    NOT NULL,
    bucket    text    NOT NULL,
    user_id   integer NOT NULL,
    composite integer NOT NULL,
    PRIMARY KEY (board, bucket, user_id)
) WITHOUT ROWID;

-- external_id is the app's own id of the user; user_id is the row id, the number by
-- which all other tables and Redis refer to the user.
--
-- version comes from the sequence user_versions with each change of a record, and changed_at is the
-- time of the change: processes look for changes since they last looked. Both keep their first
-- value until a profile is set, so that an import of a million users is no change.
--
-- Transactions that change friendships update friend_count under a lock on the
-- row, so that the limit can be enforced without counting friendships.
--
-- requests_sent is the number of friend requests that the user has sent in the 24 hours
-- that end at requests_until. The next request after that begins new ones. hidings and
-- hidings_until count in the same way how often the user has begun or ended to hide from
-- everybody in an hour.
--
-- name_key is the nickname in small letters, by whose beginning operators find users.
--
-- Whoever has a user's invite_code may become a friend of the user; null until the user asks for it.
--
-- hidden says that the user hides from everybody. The few who do have an index, by which
-- they are left out of friend sets.
CREATE TABLE users (
    user_id        integer     PRIMARY KEY AUTOINCREMENT CHECK (user_id BETWEEN 1 AND 9007199254740991),
    external_id    text        NOT NULL UNIQUE,
    nickname       text        NOT NULL DEFAULT '',
    name_key       text        NOT NULL DEFAULT '',
    avatar_url     text        NOT NULL DEFAULT '',
    cover_url      text        NOT NULL DEFAULT '',
    version        bigint      NOT NULL DEFAULT 0,
    changed_at     datetime,
    hidden         boolean     NOT NULL DEFAULT false,
    friend_count   integer     NOT NULL DEFAULT 0 CHECK (friend_count BETWEEN 0 AND 5000),
    requests_sent  integer     NOT NULL DEFAULT 0,
    requests_until datetime,
    hidings        integer     NOT NULL DEFAULT 0,
    hidings_until  datetime,
    invite_code    text,
    created_at     datetime    NOT NULL
);
-- The sequence user_versions: the largest version that any user has had.
INSERT INTO sqlite_sequence (name, seq) VALUES ('user_versions', 0);
CREATE TRIGGER user_versions_follow AFTER UPDATE OF version ON users BEGIN
    UPDATE sqlite_sequence SET seq = max(seq, new.version) WHERE name = 'user_versions';
END;
CREATE INDEX users_changed ON users (changed_at) WHERE changed_at IS NOT NULL;
CREATE UNIQUE INDEX users_invite_code ON users (invite_code) WHERE invite_code IS NOT NULL;
CREATE INDEX users_hidden ON users (user_id) WHERE hidden;
CREATE INDEX users_name ON users (name_key, user_id) WHERE name_key <> '';

-- The ids that users had before they were renamed: id says in which order. Processes read
-- the latest rows every second, to disbelieve copies that map a former id to row_id, which
-- is the row id of somebody whose id is another one now. They go with the user.
CREATE TABLE renames (
    id         integer     PRIMARY KEY AUTOINCREMENT,
    row_id     bigint      NOT NULL,
    former_id  text        NOT NULL,
    renamed_at datetime    NOT NULL
);
CREATE INDEX renames_row ON renames (row_id);

-- Row ids that are never given to anybody: a newer Redis or queue may still name
-- them after an older Postgres was restored.
CREATE TABLE row_id_gaps (
    first_id   bigint      PRIMARY KEY,
    last_id    bigint      NOT NULL CHECK (last_id >= first_id),
    created_at datetime NOT NULL
);

-- The keys that seal cursors. The newest one seals; the others open.
CREATE TABLE cursor_keys (
    id         bigint      PRIMARY KEY,
    secret     blob NOT NULL,
    created_at datetime NOT NULL
);

CREATE TABLE friendships (
    user_id    bigint      NOT NULL,
    friend_id  bigint      NOT NULL CHECK (friend_id <> user_id),
    created_at datetime NOT NULL,
    PRIMARY KEY (user_id, friend_id)
);

-- A pending request has two rows: an outgoing one for the user who has sent it, and an
-- incoming one for the other. Declining it leaves the outgoing row as it is and sets
-- declined_at of the incoming row, which nobody is shown any more. For seven days after
-- that, requests of the same user do not reach the other; a job deletes the row later.
-- The comment of package services/people/friends lists the states of a pair.
CREATE TABLE friend_requests (
    user_id     bigint      NOT NULL,
    other_id    bigint      NOT NULL CHECK (other_id <> user_id),
    incoming    boolean     NOT NULL,
    created_at  datetime NOT NULL,
    declined_at datetime CHECK (declined_at IS NULL OR incoming),
    PRIMARY KEY (user_id, other_id)
);

-- A user's requests are listed newest first, those that they have sent are counted, and
-- expired declines are deleted.
CREATE INDEX friend_requests_newest ON friend_requests (user_id, created_at DESC, other_id DESC) WHERE declined_at IS NULL;
CREATE INDEX friend_requests_outgoing ON friend_requests (user_id) WHERE NOT incoming;
CREATE INDEX friend_requests_declined ON friend_requests (declined_at) WHERE declined_at IS NOT NULL;
-- +goose StatementEnd
