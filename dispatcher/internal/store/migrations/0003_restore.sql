-- What a restore needs. A terminal may hold an attempt that the replaced database
-- granted after the backup was made, so the numbers of attempts go on above it:
-- floor is what the next attempt's number must exceed, skipped how many numbers
-- were left out. attempts grows by as much, so attempts - attempt stays what is
-- left, and attempts - skipped what was allowed.

ALTER TABLE tasks ADD COLUMN floor INTEGER NOT NULL DEFAULT 0 CHECK (floor >= 0);
ALTER TABLE tasks ADD COLUMN skipped INTEGER NOT NULL DEFAULT 0 CHECK (skipped >= 0);

DROP TRIGGER tasks_frozen;
CREATE TRIGGER tasks_frozen BEFORE UPDATE OF task_id, run_id, store_id, terminal_id, input, created_at ON tasks
BEGIN
    SELECT RAISE(ABORT, 'the task list of a run is frozen');
END;
CREATE TRIGGER tasks_budget BEFORE UPDATE OF attempts, skipped ON tasks
WHEN NEW.skipped < OLD.skipped OR NEW.attempts - NEW.skipped <> OLD.attempts - OLD.skipped
BEGIN
    SELECT RAISE(ABORT, 'the attempts that a task may have are frozen');
END;
CREATE TRIGGER tasks_floor BEFORE UPDATE OF floor ON tasks
WHEN NEW.floor < OLD.floor
BEGIN
    SELECT RAISE(ABORT, 'the floor of a task only rises');
END;

DROP TRIGGER tasks_moves;
-- The moves table of internal/task.
CREATE TRIGGER tasks_moves BEFORE UPDATE OF status, attempt, settled_at ON tasks
WHEN NOT (
    OLD.settled_at = 0 AND (
        -- grant
        (OLD.status IN ('PENDING', 'FAILED') AND NEW.status = 'RUNNING'
            AND NEW.attempt = max(OLD.attempt, OLD.floor) + 1 AND NEW.settled_at = 0)
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
