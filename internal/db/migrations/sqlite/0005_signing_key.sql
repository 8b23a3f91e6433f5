-- The time at which the first signing key of an institution was created. If it is set and
-- the key does not exist, the key was lost and must not be created again automatically.
ALTER TABLE institutions ADD COLUMN key_made_at INTEGER;
