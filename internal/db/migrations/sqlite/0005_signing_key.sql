-- When an institution's signing key was first made. Where it is set, a key that
-- is not there is lost, and must not be made anew unasked.
ALTER TABLE institutions ADD COLUMN key_made_at INTEGER;
