-- Times are UTC milliseconds, 0 for "not yet". Documents are JSON text, kept
-- byte for byte. Ids are compared exactly.

CREATE TABLE meta (
    key   TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;

CREATE TABLE places (
    store_id   TEXT    NOT NULL PRIMARY KEY,
    name       TEXT    NOT NULL,
    time_zone  TEXT    NOT NULL,
    labels     TEXT    NOT NULL,
    active     INTEGER NOT NULL CHECK (active IN (0, 1)),
    changed_at INTEGER NOT NULL CHECK (changed_at >= 0)
) STRICT;

-- session_since is when the newest session began; since is when online last
-- changed.
CREATE TABLE terminals (
    store_id      TEXT    NOT NULL,
    terminal_id   TEXT    NOT NULL,
    online        INTEGER NOT NULL DEFAULT 0 CHECK (online IN (0, 1)),
    session_id    TEXT    NOT NULL DEFAULT '',
    session_since INTEGER NOT NULL DEFAULT 0 CHECK (session_since >= 0),
    since         INTEGER NOT NULL DEFAULT 0 CHECK (since >= 0),
    last_seen_at  INTEGER NOT NULL DEFAULT 0 CHECK (last_seen_at >= 0),
    clock_skew_ms INTEGER,
    hello         TEXT,
    PRIMARY KEY (store_id, terminal_id)
) STRICT;

-- late_count numbers the tasks that an accepted late answer settled.
CREATE TABLE runs (
    run_id            TEXT    NOT NULL PRIMARY KEY,
    job               TEXT    NOT NULL,
    job_version       INTEGER NOT NULL,
    requested_by      TEXT    NOT NULL,
    reason            TEXT    NOT NULL,
    input             TEXT    NOT NULL,
    policy            TEXT    NOT NULL,
    columns           TEXT    NOT NULL,
    targets           INTEGER NOT NULL CHECK (targets > 0),
    created_at        INTEGER NOT NULL CHECK (created_at > 0),
    barrier_at        INTEGER NOT NULL CHECK (barrier_at >= 0),
    makeup_until      INTEGER NOT NULL CHECK (makeup_until >= 0),
    barrier_closed_at INTEGER NOT NULL DEFAULT 0 CHECK (barrier_closed_at >= 0),
    closed_at         INTEGER NOT NULL DEFAULT 0 CHECK (closed_at >= 0),
    revision          INTEGER NOT NULL DEFAULT 0 CHECK (revision >= 0),
    late_count        INTEGER NOT NULL DEFAULT 0 CHECK (late_count >= 0)
) STRICT;
CREATE INDEX runs_open ON runs (created_at) WHERE closed_at = 0;

CREATE TABLE run_targets (
    run_id    TEXT NOT NULL REFERENCES runs (run_id),
    store_id  TEXT NOT NULL,
    name      TEXT NOT NULL,
    time_zone TEXT NOT NULL,
    labels    TEXT NOT NULL,
    PRIMARY KEY (run_id, store_id)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER run_targets_frozen BEFORE UPDATE ON run_targets
BEGIN
    SELECT RAISE(ABORT, 'the targets of a run are frozen');
END;

-- Small on purpose: results lie in attempts. settled_at <> 0 is "settled".
-- input is NULL when it is the run's.
CREATE TABLE tasks (
    task_id         TEXT    NOT NULL PRIMARY KEY,
    run_id          TEXT    NOT NULL,
    store_id        TEXT    NOT NULL,
    terminal_id     TEXT    NOT NULL,
    status          TEXT    NOT NULL DEFAULT 'PENDING',
    attempt         INTEGER NOT NULL DEFAULT 0,
    attempts        INTEGER NOT NULL CHECK (attempts >= 1),
    holder_id       TEXT    NOT NULL DEFAULT '',
    last_code       TEXT    NOT NULL DEFAULT '',
    reason          TEXT    NOT NULL DEFAULT '',
    next_attempt_at INTEGER NOT NULL DEFAULT 0 CHECK (next_attempt_at >= 0),
    claimed_at      INTEGER NOT NULL DEFAULT 0 CHECK (claimed_at >= 0),
    created_at      INTEGER NOT NULL CHECK (created_at > 0),
    settled_at      INTEGER NOT NULL DEFAULT 0 CHECK (settled_at >= 0),
    input           TEXT,
    FOREIGN KEY (run_id, store_id) REFERENCES run_targets (run_id, store_id),
    CHECK (attempt <= attempts),
    CHECK (next_attempt_at = 0 OR (status = 'FAILED' AND settled_at = 0)),
    -- State.Valid of internal/task.
    CHECK (
        (status = 'PENDING'   AND attempt = 0  AND settled_at = 0)  OR
        (status = 'RUNNING'   AND attempt > 0  AND settled_at = 0)  OR
        (status = 'SUCCEEDED' AND attempt > 0  AND settled_at <> 0) OR
        (status = 'FAILED'    AND attempt > 0)                      OR
        (status = 'CANCELLED' AND attempt >= 0 AND settled_at <> 0)
    )
) STRICT;
-- Never moves: its columns are frozen. In the order in which a barrier reads.
CREATE INDEX tasks_of_run ON tasks (run_id, store_id, task_id);
-- The one index that moves: a settled task leaves it.
CREATE INDEX tasks_open ON tasks (store_id, run_id) WHERE settled_at = 0;

CREATE TRIGGER tasks_frozen BEFORE UPDATE OF task_id, run_id, store_id, terminal_id, input, attempts, created_at ON tasks
BEGIN
    SELECT RAISE(ABORT, 'the task list of a run is frozen');
END;
-- The moves table of internal/task.
CREATE TRIGGER tasks_moves BEFORE UPDATE OF status, attempt, settled_at ON tasks
WHEN NOT (
    OLD.settled_at = 0 AND (
        -- grant
        (OLD.status IN ('PENDING', 'FAILED') AND NEW.status = 'RUNNING'
            AND NEW.attempt = OLD.attempt + 1 AND NEW.settled_at = 0)
        OR (NEW.attempt = OLD.attempt AND (
            -- succeed
            (OLD.status = 'RUNNING' AND NEW.status = 'SUCCEEDED' AND NEW.settled_at <> 0)
            -- fail, give_up
            OR (OLD.status = 'RUNNING' AND NEW.status = 'FAILED')
            -- give_up while a retry was to follow
            OR (OLD.status = 'FAILED' AND NEW.status = 'FAILED' AND NEW.settled_at <> 0)
            -- cancel
            OR (OLD.status IN ('PENDING', 'RUNNING', 'FAILED') AND NEW.status = 'CANCELLED' AND NEW.settled_at <> 0)
        ))
    )
)
BEGIN
    SELECT RAISE(ABORT, 'the moves table has no such move of a task');
END;

-- One execution record. ended_at is when the task left RUNNING, received_at
-- when the terminal's answer was committed: an answer may be recorded without
-- a move, and an attempt may end without an answer. sha256 and bytes are what was
-- announced (ready) until the answer is there. result stands last because
-- what follows a long value costs a walk through its pages.
CREATE TABLE attempts (
    task_id       TEXT    NOT NULL REFERENCES tasks (task_id),
    attempt       INTEGER NOT NULL CHECK (attempt > 0),
    store_id      TEXT    NOT NULL,
    terminal_id   TEXT    NOT NULL,
    granted_at    INTEGER NOT NULL CHECK (granted_at > 0),
    lease_until   INTEGER NOT NULL CHECK (lease_until >= 0),
    started_at    INTEGER NOT NULL DEFAULT 0 CHECK (started_at >= 0),
    last_sign_at  INTEGER NOT NULL DEFAULT 0 CHECK (last_sign_at >= 0),
    ready_at      INTEGER NOT NULL DEFAULT 0 CHECK (ready_at >= 0),
    ended_at      INTEGER NOT NULL DEFAULT 0 CHECK (ended_at >= 0),
    received_at   INTEGER NOT NULL DEFAULT 0 CHECK (received_at >= 0),
    terminal_from INTEGER NOT NULL DEFAULT 0,
    terminal_to   INTEGER NOT NULL DEFAULT 0,
    duration_ms   INTEGER NOT NULL DEFAULT 0,
    answer        TEXT    NOT NULL DEFAULT '' CHECK (answer IN ('', 'succeeded', 'failed', 'cancelled')),
    executed      INTEGER NOT NULL DEFAULT 0 CHECK (executed IN (0, 1)),
    late          INTEGER NOT NULL DEFAULT 0 CHECK (late IN (0, 1)),
    exit_code     INTEGER,
    code          TEXT    NOT NULL DEFAULT '',
    failure       TEXT,
    sha256        TEXT    NOT NULL DEFAULT '',
    bytes         INTEGER NOT NULL DEFAULT 0 CHECK (bytes >= 0),
    columns       TEXT,
    output_tail   TEXT    NOT NULL DEFAULT '',
    result        TEXT,
    PRIMARY KEY (task_id, attempt),
    CHECK ((answer = '') = (received_at = 0))
) STRICT;
CREATE TRIGGER attempts_kept BEFORE DELETE ON attempts
BEGIN
    SELECT RAISE(ABORT, 'execution records are append-only');
END;
CREATE TRIGGER attempts_answered_once BEFORE UPDATE OF received_at, answer, sha256, bytes, result ON attempts
WHEN OLD.received_at <> 0
BEGIN
    SELECT RAISE(ABORT, 'an attempt is answered once');
END;

CREATE TABLE rejected_results (
    id          INTEGER PRIMARY KEY,
    task_id     TEXT    NOT NULL REFERENCES tasks (task_id),
    attempt     INTEGER NOT NULL,
    store_id    TEXT    NOT NULL,
    terminal_id TEXT    NOT NULL,
    received_at INTEGER NOT NULL CHECK (received_at > 0),
    code        TEXT    NOT NULL,
    failure     TEXT,
    sha256      TEXT    NOT NULL,
    bytes       INTEGER NOT NULL,
    payload     BLOB    NOT NULL,
    UNIQUE (task_id, attempt, terminal_id, sha256)
) STRICT;

CREATE TABLE requests (
    user         TEXT    NOT NULL,
    request_id   TEXT    NOT NULL,
    content_hash TEXT    NOT NULL,
    run_id       TEXT    NOT NULL REFERENCES runs (run_id),
    created_at   INTEGER NOT NULL CHECK (created_at > 0),
    PRIMARY KEY (user, request_id)
) STRICT;

-- seen is the run's late_count in the snapshot that the revision was made of.
CREATE TABLE revisions (
    run_id       TEXT    NOT NULL REFERENCES runs (run_id),
    revision     INTEGER NOT NULL CHECK (revision > 0),
    why          TEXT    NOT NULL,
    as_of        INTEGER NOT NULL CHECK (as_of > 0),
    seen         INTEGER NOT NULL CHECK (seen >= 0),
    complete     INTEGER NOT NULL DEFAULT 0 CHECK (complete IN (0, 1)),
    published_at INTEGER NOT NULL DEFAULT 0 CHECK (published_at = 0 OR complete = 1),
    files        TEXT    NOT NULL DEFAULT '[]',
    PRIMARY KEY (run_id, revision)
) STRICT;

CREATE TABLE outcomes (
    run_id   TEXT    NOT NULL,
    store_id TEXT    NOT NULL,
    revision INTEGER NOT NULL,
    outcome  TEXT    NOT NULL CHECK (outcome IN ('succeeded', 'failed', 'timed_out', 'offline', 'cancelled')),
    reason   TEXT    NOT NULL,
    row      TEXT    NOT NULL,
    PRIMARY KEY (run_id, store_id, revision),
    FOREIGN KEY (run_id, store_id) REFERENCES run_targets (run_id, store_id),
    FOREIGN KEY (run_id, revision) REFERENCES revisions (run_id, revision),
    CHECK ((outcome = 'succeeded') = (reason = ''))
) STRICT;
CREATE TRIGGER outcomes_immutable BEFORE UPDATE ON outcomes
BEGIN
    SELECT RAISE(ABORT, 'the rows of a revision are immutable');
END;
CREATE TRIGGER outcomes_kept BEFORE DELETE ON outcomes
WHEN EXISTS (SELECT 1 FROM revisions WHERE run_id = OLD.run_id AND revision = OLD.revision AND complete = 1)
BEGIN
    SELECT RAISE(ABORT, 'the rows of a complete revision are kept');
END;

CREATE TABLE audit (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL CHECK (at > 0),
    actor   TEXT    NOT NULL,
    action  TEXT    NOT NULL,
    subject TEXT    NOT NULL,
    detail  TEXT    NOT NULL
) STRICT;
CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit
BEGIN
    SELECT RAISE(ABORT, 'the audit is append-only');
END;
CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit
BEGIN
    SELECT RAISE(ABORT, 'the audit is append-only');
END;
