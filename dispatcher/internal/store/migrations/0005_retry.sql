-- A retry is a run of the targets that its parent misses; its answers are merged into
-- the parent's report. merged is the newest of its own revisions that was. What leans
-- on the day of the order, leans on ordered_at: 0 is created_at.
ALTER TABLE runs ADD COLUMN parent_run TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN merged INTEGER NOT NULL DEFAULT 0 CHECK (merged >= 0);
ALTER TABLE runs ADD COLUMN ordered_at INTEGER NOT NULL DEFAULT 0 CHECK (ordered_at >= 0);
CREATE INDEX runs_retrying ON runs (parent_run) WHERE parent_run <> '';
