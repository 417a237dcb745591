-- +goose Up

-- Whoever reads a table must not wait long behind us.
SET LOCAL lock_timeout = '5s';

CREATE TYPE item_kind AS ENUM ('plan', 'route', 'rule', 'override', 'candidate');
CREATE TYPE rule_scope AS ENUM ('all');
CREATE TYPE rule_identity AS ENUM ('api_key', 'ip', 'user');
CREATE TYPE rule_algorithm AS ENUM ('token_bucket', 'fixed_window', 'sliding_log');
CREATE TYPE rule_mode AS ENUM ('enforce', 'shadow');
CREATE TYPE rule_fail_mode AS ENUM ('open', 'closed');
CREATE TYPE rule_counts AS ENUM ('requests', 'cost');
CREATE TYPE rule_check AS ENUM ('before', 'after');
CREATE TYPE rollout_state AS ENUM ('shadow', 'canary', 'promoted', 'rolled_back');
CREATE TYPE token_role AS ENUM ('viewer', 'editor', 'admin', 'pod');

-- The bounds are those of libs/limit. NaN is larger than all numbers. Ids are sorted
-- by their bytes, as programs do it, whatever the database's locale.
CREATE DOMAIN item_id AS text COLLATE "C"
    CONSTRAINT item_id_syntax CHECK (VALUE ~ '^[a-z0-9][a-z0-9._-]{0,63}$');
CREATE DOMAIN token_rate AS double precision -- tokens a second; 1 a year at least
    CONSTRAINT rate_bounds CHECK (VALUE >= 3.162315e-8 AND VALUE <= 1e7);
CREATE DOMAIN token_burst AS bigint
    CONSTRAINT burst_bounds CHECK (VALUE BETWEEN 1 AND 1000000000);
CREATE DOMAIN window_count AS bigint
    CONSTRAINT limit_bounds CHECK (VALUE BETWEEN 1 AND 1000000000000);
CREATE DOMAIN window_length AS numeric -- seconds, in whole microseconds; 31 days at most
    CONSTRAINT window_bounds CHECK (VALUE BETWEEN 1 AND 2678400 AND VALUE = round(VALUE, 6));

-- The one revision. Every write updates this row before it looks at anything, and
-- so holds it until it has committed.
CREATE TABLE ledger (
    only_row boolean     PRIMARY KEY DEFAULT true CHECK (only_row),
    revision bigint      NOT NULL CHECK (revision >= 0),
    at       timestamptz NOT NULL
);
INSERT INTO ledger (revision, at) VALUES (0, clock_timestamp());

-- Every change there ever was, also the tombstones of what is gone. Nothing deletes
-- from it. change and before are a shiplane.rules.v1.Change in protobuf's JSON.
CREATE TABLE changes (
    revision bigint      NOT NULL,
    ordinal  integer     NOT NULL,
    domain   item_id     NOT NULL,
    kind     item_kind   NOT NULL,
    item_id  item_id     NOT NULL,
    deleted  boolean     NOT NULL,
    version  bigint      NOT NULL,
    change   jsonb       NOT NULL,
    before   jsonb,
    action   text        NOT NULL,
    author   text        NOT NULL CONSTRAINT changes_author CHECK (octet_length(author) <= 128),
    why      text        NOT NULL CONSTRAINT changes_why CHECK (octet_length(why) <= 1024),
    at       timestamptz NOT NULL,
    PRIMARY KEY (revision, ordinal),
    CONSTRAINT changes_one_per_item UNIQUE (domain, kind, item_id, revision),
    CONSTRAINT changes_version CHECK (CASE WHEN kind IN ('rule', 'route') THEN version >= 1 WHEN kind = 'candidate' THEN version >= 0 ELSE version = 0 END)
);
-- A version in force is one content for ever.
CREATE UNIQUE INDEX changes_version_once ON changes (domain, kind, item_id, version) WHERE kind IN ('rule', 'route');

CREATE TABLE domains (
    domain   item_id PRIMARY KEY,
    revision bigint  NOT NULL -- the last one that changed it
);

CREATE TABLE plans (
    domain  item_id NOT NULL REFERENCES domains,
    plan_id item_id NOT NULL,
    PRIMARY KEY (domain, plan_id)
);

CREATE TABLE routes (
    domain     item_id NOT NULL REFERENCES domains,
    route_id   item_id NOT NULL,
    match      text[]  NOT NULL CONSTRAINT routes_match CHECK (cardinality(match) >= 1),
    cost       bigint  CONSTRAINT routes_cost CHECK (cost BETWEEN 0 AND 1000000), -- NULL: 1
    user_field text    NOT NULL,
    version    bigint  NOT NULL CONSTRAINT routes_version CHECK (version >= 1),
    PRIMARY KEY (domain, route_id)
);

-- NULL is what the rule does not say.
CREATE TABLE rules (
    domain      item_id        NOT NULL,
    rule_id     item_id        NOT NULL,
    match_plan  item_id,
    match_route item_id,
    scope       rule_scope,
    identity    rule_identity  NOT NULL,
    algorithm   rule_algorithm NOT NULL,
    rate_per_s  token_rate,
    burst       token_burst,
    "limit"     window_count,
    window_s    window_length,
    mode        rule_mode,      -- NULL: enforce
    fail_mode   rule_fail_mode, -- NULL: open
    counts      rule_counts,    -- NULL: requests
    "check"     rule_check,     -- NULL: before
    version     bigint         NOT NULL CONSTRAINT rules_version CHECK (version >= 1),
    CONSTRAINT rules_limit CHECK (CASE algorithm
        WHEN 'token_bucket' THEN num_nonnulls(rate_per_s, burst) = 2 AND num_nonnulls("limit", window_s) = 0
        ELSE num_nonnulls(rate_per_s, burst) = 0 AND num_nonnulls("limit", window_s) = 2 END),
    CONSTRAINT rules_log_limit CHECK (algorithm <> 'sliding_log' OR "limit" <= 1000),
    CONSTRAINT rules_scope CHECK ((num_nonnulls(match_plan, match_route) = 0) = (scope IS NOT NULL)),
    CONSTRAINT rules_counts CHECK (algorithm <> 'token_bucket' OR counts IS NULL),
    CONSTRAINT rules_check CHECK ("check" IS DISTINCT FROM 'after' OR algorithm <> 'sliding_log' AND fail_mode IS DISTINCT FROM 'closed'),
    CONSTRAINT rules_anonymous CHECK (match_plan IS DISTINCT FROM 'anonymous' OR identity <> 'api_key')
);

-- Candidates: rules that are to be, and what became of them.
CREATE TABLE rollouts (
    LIKE rules INCLUDING CONSTRAINTS, -- the rule as it is to be
    base_version   bigint        NOT NULL CHECK (base_version >= 0), -- 0: there was no rule
    state          rollout_state NOT NULL,
    state_revision bigint        NOT NULL, -- that brought it into this state
    started_at     timestamptz   NOT NULL,
    since          timestamptz   NOT NULL,
    author         text          NOT NULL,
    why            text          NOT NULL,
    revision       bigint        NOT NULL, -- of the entry that began it
    ordinal        integer       NOT NULL,
    PRIMARY KEY (revision, ordinal),
    FOREIGN KEY (revision, ordinal) REFERENCES changes DEFERRABLE INITIALLY DEFERRED,
    -- What one under way names must be there; what one that is over named need not.
    plan_ref  item_id GENERATED ALWAYS AS (CASE WHEN state IN ('shadow', 'canary') AND match_plan <> 'anonymous' THEN match_plan END) STORED,
    route_ref item_id GENERATED ALWAYS AS (CASE WHEN state IN ('shadow', 'canary') THEN match_route END) STORED,
    CONSTRAINT rollouts_plan FOREIGN KEY (domain, plan_ref) REFERENCES plans DEFERRABLE INITIALLY DEFERRED,
    CONSTRAINT rollouts_route FOREIGN KEY (domain, route_ref) REFERENCES routes DEFERRABLE INITIALLY DEFERRED
);
CREATE UNIQUE INDEX rollouts_one_under_way ON rollouts (domain, rule_id) WHERE state IN ('shadow', 'canary');
CREATE INDEX rollouts_of_rule ON rollouts (domain, rule_id, revision);

-- "anonymous" is a plan that is always there. References are checked at commit: the
-- order within a write is the caller's.
ALTER TABLE rules
    ADD COLUMN plan_ref item_id GENERATED ALWAYS AS (CASE WHEN match_plan <> 'anonymous' THEN match_plan END) STORED,
    ADD PRIMARY KEY (domain, rule_id),
    ADD FOREIGN KEY (domain) REFERENCES domains,
    ADD CONSTRAINT rules_plan FOREIGN KEY (domain, plan_ref) REFERENCES plans DEFERRABLE INITIALLY DEFERRED,
    ADD CONSTRAINT rules_route FOREIGN KEY (domain, match_route) REFERENCES routes DEFERRABLE INITIALLY DEFERRED;
CREATE INDEX rules_of_plan ON rules (domain, plan_ref);
CREATE INDEX rules_of_route ON rules (domain, match_route);

CREATE TABLE overrides (
    domain      item_id NOT NULL,
    override_id item_id NOT NULL,
    rule_id     item_id NOT NULL,
    key         text    NOT NULL CONSTRAINT overrides_key CHECK (octet_length(key) BETWEEN 1 AND 1024),
    rate_per_s  token_rate,
    burst       token_burst,
    "limit"     window_count,
    window_s    window_length,
    deny        boolean NOT NULL,
    starts_at   timestamptz,
    expires_at  timestamptz,
    author      text    NOT NULL CONSTRAINT overrides_author CHECK (octet_length(author) <= 128),
    reason      text    NOT NULL CONSTRAINT overrides_reason CHECK (octet_length(reason) <= 1024),
    PRIMARY KEY (domain, override_id),
    CONSTRAINT overrides_rule FOREIGN KEY (domain, rule_id) REFERENCES rules DEFERRABLE INITIALLY DEFERRED,
    CONSTRAINT overrides_deny CHECK (deny = (num_nonnulls(rate_per_s, burst, "limit", window_s) = 0)),
    CONSTRAINT overrides_times CHECK (expires_at > starts_at)
);
CREATE INDEX overrides_of_key ON overrides (domain, key);
CREATE INDEX overrides_of_rule ON overrides (domain, rule_id, override_id);

-- What pods have told. It is no part of the ledger.
CREATE TABLE pods (
    domain   text        COLLATE "C" NOT NULL,
    pod_id   text        COLLATE "C" NOT NULL,
    region   text        NOT NULL,
    canary   boolean     NOT NULL,
    revision bigint      NOT NULL,
    faults   text[]      NOT NULL,
    seen_at  timestamptz NOT NULL,
    PRIMARY KEY (domain, pod_id)
);
CREATE INDEX pods_by_age ON pods (seen_at);

-- What each life of a pod has told of a rollout in its present state: the first
-- report and the last.
CREATE TABLE counts (
    revision       bigint  NOT NULL, -- of the rollout
    ordinal        integer NOT NULL,
    state_revision bigint  NOT NULL,
    pod_id         text    COLLATE "C" NOT NULL,
    incarnation    text    COLLATE "C" NOT NULL,
    candidate_evaluated_first bigint NOT NULL,
    candidate_refused_first   bigint NOT NULL,
    base_evaluated_first      bigint NOT NULL,
    base_refused_first        bigint NOT NULL,
    candidate_evaluated       bigint NOT NULL,
    candidate_refused         bigint NOT NULL,
    base_evaluated            bigint NOT NULL,
    base_refused              bigint NOT NULL,
    PRIMARY KEY (revision, ordinal, state_revision, pod_id, incarnation),
    FOREIGN KEY (revision, ordinal) REFERENCES rollouts
);

-- Bearer tokens: of a secret only its hash.
CREATE TABLE tokens (
    token_id   text        COLLATE "C" PRIMARY KEY,
    hash       bytea       NOT NULL CONSTRAINT tokens_hash_once UNIQUE CONSTRAINT tokens_hash CHECK (octet_length(hash) = 32),
    name       text        NOT NULL,
    role       token_role  NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    revoked_at timestamptz
);
