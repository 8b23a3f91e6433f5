-- The lifetime that a rotated token had before its first rotation, in microseconds; 0 if it did not
-- expire. It is NULL for a token that was not rotated.
ALTER TABLE tokens ADD COLUMN lifetime BIGINT;
