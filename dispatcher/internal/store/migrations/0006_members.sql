-- A short hash of each member of what a request asked for, "name:hash name:hash", so
-- that another request under its id is told in which members it differs.
ALTER TABLE requests ADD COLUMN members TEXT NOT NULL DEFAULT '';
