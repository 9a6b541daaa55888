-- Who may speak for a terminal, what was approved by whom, and an audit whose
-- entries hold each other. Hashes are SHA-256 in lower-case hex.

-- Only the hash of a token is kept. key_id is the key that used it; a used
-- token without one was voided when its terminal was revoked.
CREATE TABLE enrolments (
    token_sha256 TEXT    NOT NULL PRIMARY KEY CHECK (length(token_sha256) = 64),
    store_id     TEXT    NOT NULL CHECK (store_id <> ''),
    terminal_id  TEXT    NOT NULL CHECK (terminal_id <> ''),
    created_by   TEXT    NOT NULL CHECK (created_by <> ''),
    created_at   INTEGER NOT NULL CHECK (created_at > 0),
    expires_at   INTEGER NOT NULL CHECK (expires_at > created_at),
    used_at      INTEGER NOT NULL DEFAULT 0 CHECK (used_at >= 0),
    key_id       TEXT    REFERENCES terminal_keys (key_id),
    CHECK (key_id IS NULL OR used_at <> 0)
) STRICT;
CREATE INDEX enrolments_unused ON enrolments (store_id, terminal_id) WHERE used_at = 0;
CREATE TRIGGER enrolments_kept BEFORE DELETE ON enrolments
BEGIN
    SELECT RAISE(ABORT, 'enrolments are kept');
END;
CREATE TRIGGER enrolments_used_once BEFORE UPDATE ON enrolments
WHEN OLD.used_at <> 0 OR NEW.used_at = 0
    OR NEW.token_sha256 <> OLD.token_sha256 OR NEW.store_id <> OLD.store_id OR NEW.terminal_id <> OLD.terminal_id
    OR NEW.created_by <> OLD.created_by OR NEW.created_at <> OLD.created_at OR NEW.expires_at <> OLD.expires_at
BEGIN
    SELECT RAISE(ABORT, 'a token is used once, and is nothing else than it was');
END;

-- A public key belongs to one terminal for good.
CREATE TABLE terminal_keys (
    key_id      TEXT    NOT NULL PRIMARY KEY CHECK (key_id <> ''),
    store_id    TEXT    NOT NULL CHECK (store_id <> ''),
    terminal_id TEXT    NOT NULL CHECK (terminal_id <> ''),
    public_key  TEXT    NOT NULL CHECK (public_key <> ''),
    created_at  INTEGER NOT NULL CHECK (created_at > 0),
    revoked_at  INTEGER NOT NULL DEFAULT 0 CHECK (revoked_at >= 0)
) STRICT;
CREATE INDEX terminal_keys_of_terminal ON terminal_keys (store_id, terminal_id);
CREATE TRIGGER terminal_keys_kept BEFORE DELETE ON terminal_keys
BEGIN
    SELECT RAISE(ABORT, 'keys are kept');
END;
CREATE TRIGGER terminal_keys_revoked_once BEFORE UPDATE ON terminal_keys
WHEN OLD.revoked_at <> 0 OR NEW.revoked_at = 0
    OR NEW.key_id <> OLD.key_id OR NEW.store_id <> OLD.store_id OR NEW.terminal_id <> OLD.terminal_id
    OR NEW.public_key <> OLD.public_key OR NEW.created_at <> OLD.created_at
BEGIN
    SELECT RAISE(ABORT, 'a key is revoked once, and is nothing else than it was');
END;

-- Every certificate of a key: a revocation must name each of them.
CREATE TABLE terminal_certificates (
    serial    TEXT    NOT NULL PRIMARY KEY CHECK (serial <> ''),
    key_id    TEXT    NOT NULL REFERENCES terminal_keys (key_id),
    issued_at INTEGER NOT NULL CHECK (issued_at > 0),
    not_after INTEGER NOT NULL CHECK (not_after > issued_at)
) STRICT;
CREATE INDEX terminal_certificates_of_key ON terminal_certificates (key_id);
CREATE TRIGGER terminal_certificates_kept BEFORE DELETE ON terminal_certificates
BEGIN
    SELECT RAISE(ABORT, 'certificates are kept');
END;
CREATE TRIGGER terminal_certificates_frozen BEFORE UPDATE ON terminal_certificates
BEGIN
    SELECT RAISE(ABORT, 'certificates are frozen');
END;

-- request is the JSON of what was asked. The state leaves 'pending' once.
CREATE TABLE approvals (
    approval_id  TEXT    NOT NULL PRIMARY KEY CHECK (approval_id <> ''),
    kind         TEXT    NOT NULL CHECK (kind IN ('run', 'keys')),
    requester    TEXT    NOT NULL CHECK (requester <> ''),
    request_id   TEXT    NOT NULL,
    request_hash TEXT    NOT NULL,
    content_hash TEXT    NOT NULL CHECK (content_hash <> ''),
    request      TEXT    NOT NULL,
    stores       INTEGER NOT NULL CHECK (stores >= 0),
    created_at   INTEGER NOT NULL CHECK (created_at > 0),
    expires_at   INTEGER NOT NULL CHECK (expires_at > created_at),
    state        TEXT    NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'approved', 'rejected', 'expired', 'void')),
    decided_at   INTEGER NOT NULL DEFAULT 0 CHECK (decided_at >= 0),
    decided_by   TEXT    NOT NULL DEFAULT '',
    why          TEXT    NOT NULL DEFAULT '',
    run_id       TEXT    REFERENCES runs (run_id),
    CHECK ((state = 'pending') = (decided_at = 0)),
    CHECK ((state = 'pending') = (decided_by = '')),
    CHECK ((run_id IS NOT NULL) = (state = 'approved' AND kind = 'run')),
    -- Four eyes.
    CHECK (state <> 'approved' OR decided_by <> requester)
) STRICT;
CREATE INDEX approvals_of_request ON approvals (requester, request_id);
CREATE INDEX approvals_pending ON approvals (expires_at) WHERE state = 'pending';
CREATE UNIQUE INDEX approvals_one_pending ON approvals (requester, request_id) WHERE state = 'pending' AND request_id <> '';
CREATE TRIGGER approvals_begin_pending BEFORE INSERT ON approvals
WHEN NEW.state <> 'pending'
BEGIN
    SELECT RAISE(ABORT, 'an approval begins as pending');
END;
CREATE TRIGGER approvals_kept BEFORE DELETE ON approvals
BEGIN
    SELECT RAISE(ABORT, 'approvals are kept');
END;
CREATE TRIGGER approvals_frozen BEFORE UPDATE OF approval_id, kind, requester, request_id, request_hash, content_hash, request,
    stores, created_at, expires_at ON approvals
BEGIN
    SELECT RAISE(ABORT, 'what is to be approved is frozen');
END;
CREATE TRIGGER approvals_decided_once BEFORE UPDATE ON approvals
WHEN OLD.state <> 'pending'
BEGIN
    SELECT RAISE(ABORT, 'a decided approval never changes');
END;

ALTER TABLE runs ADD COLUMN approved_by TEXT NOT NULL DEFAULT '' CHECK (approved_by = '' OR approved_by <> requested_by);
CREATE TRIGGER runs_approval_frozen BEFORE UPDATE OF approved_by ON runs
BEGIN
    SELECT RAISE(ABORT, 'who approved a run is frozen');
END;

-- It stands behind result and yet costs no walk through its pages: the head of
-- a record tells 0 and 1, and what is blacked out is rare.
ALTER TABLE attempts ADD COLUMN redacted INTEGER NOT NULL DEFAULT 0 CHECK (redacted >= 0);
CREATE TRIGGER attempts_redacted_once BEFORE UPDATE OF redacted ON attempts
WHEN OLD.received_at <> 0
BEGIN
    SELECT RAISE(ABORT, 'an attempt is answered once');
END;

-- Entries that are older than the chain have no hash; its first entry seals
-- them.
ALTER TABLE audit ADD COLUMN prev_hash TEXT NOT NULL DEFAULT '' CHECK (length(prev_hash) IN (0, 64));
ALTER TABLE audit ADD COLUMN hash TEXT NOT NULL DEFAULT '' CHECK (length(hash) IN (0, 64));
CREATE TRIGGER audit_chained BEFORE INSERT ON audit
WHEN NEW.hash = '' OR NEW.prev_hash <> coalesce((SELECT hash FROM audit ORDER BY id DESC LIMIT 1), '')
    OR NEW.id <= coalesce((SELECT max(id) FROM audit), 0)
BEGIN
    SELECT RAISE(ABORT, 'an audit entry continues the chain');
END;
