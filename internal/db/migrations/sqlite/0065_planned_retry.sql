-- A mail that could not be written is tried again at retry_at, in microseconds, after a wait that grows with
-- the number of tries. Until then, it does not delay other mail.
ALTER TABLE planned_notices ADD COLUMN tries INTEGER NOT NULL DEFAULT 0;
ALTER TABLE planned_notices ADD COLUMN retry_at INTEGER;
