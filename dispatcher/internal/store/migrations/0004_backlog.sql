-- Which of two runs of a job is newer is asked at each grant in a make-up window.
CREATE INDEX runs_of_job ON runs (job, created_at);

-- The process of the terminal that holds or last held the current attempt: two
-- machines may bear one identity, and one may not do what the other was granted.
ALTER TABLE tasks ADD COLUMN holder_instance TEXT NOT NULL DEFAULT '';
