-- Competitions of groups. All tables are new; nothing waits.

-- +goose Up
-- +goose StatementBegin

-- revision is the number of the latest final standing, 0 before the first one. recompute asks for
-- one more.
CREATE TABLE competitions (
    competition_id bigint           GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    external_id    text COLLATE "C" NOT NULL UNIQUE,
    board          text COLLATE "C" NOT NULL,
    name           text NOT NULL,
    first_day      date NOT NULL,
    last_day       date NOT NULL,
    day_cap        bigint NOT NULL CHECK (day_cap >= 0),
    goal           bigint NOT NULL CHECK (goal >= 0),
    measure        text NOT NULL CHECK (measure IN ('score', 'goal_days')),
    team           text NOT NULL CHECK (team IN ('mean', 'sum')),
    join_code      text COLLATE "C" UNIQUE,
    created_at     timestamptz NOT NULL,
    revision       integer NOT NULL DEFAULT 0,
    final_at       timestamptz,
    recompute      boolean          NOT NULL DEFAULT false,
    CHECK (first_day <= last_day),
    CHECK ((revision = 0) = (final_at IS NULL))
);
CREATE INDEX competitions_unfinished ON competitions (first_day) WHERE final_at IS NULL OR recompute;

-- The groups that are teams.
CREATE TABLE competition_teams (
    competition_id bigint NOT NULL,
    group_id       bigint NOT NULL,
    entered_at     timestamptz NOT NULL,
    PRIMARY KEY (competition_id, group_id)
);
CREATE INDEX competition_teams_group ON competition_teams (group_id);

-- On which days a person counts for a team. last_day is null for who is in it: one team at a time.
CREATE TABLE competition_members (
    competition_id bigint NOT NULL,
    user_id        bigint NOT NULL,
    group_id       bigint NOT NULL,
    first_day      date NOT NULL,
    last_day       date,
    PRIMARY KEY (competition_id, user_id, first_day),
    CHECK (last_day >= first_day)
);
CREATE UNIQUE INDEX competition_members_present ON competition_members (competition_id, user_id) WHERE last_day IS NULL;
CREATE INDEX competition_members_user ON competition_members (user_id);
CREATE INDEX competition_members_group ON competition_members (group_id);

-- What everybody has: the present standing is revision 0, and each final one stays. body is encoded as
-- package services/rankings/competitions says.
CREATE TABLE standings (
    competition_id bigint NOT NULL,
    revision       integer NOT NULL,
    as_of          timestamptz NOT NULL,
    body           bytea NOT NULL,
    PRIMARY KEY (competition_id, revision)
);
-- +goose StatementEnd
