-- disabled_at is the time at which an operator disabled the institution, or NULL. disabled_reason is shown to
-- the members. The limits are those of an operator; 0 means no limit.
ALTER TABLE institutions ADD COLUMN disabled_at INTEGER;
ALTER TABLE institutions ADD COLUMN disabled_reason TEXT NOT NULL DEFAULT '';
ALTER TABLE institutions ADD COLUMN limit_storage INTEGER NOT NULL DEFAULT 0;
ALTER TABLE institutions ADD COLUMN limit_certificates INTEGER NOT NULL DEFAULT 0;
ALTER TABLE institutions ADD COLUMN limit_requests INTEGER NOT NULL DEFAULT 0;

-- An older binary would accept the tokens of a disabled institution.
UPDATE schema_floor SET version = 73, release = '0.2.0' WHERE version < 73;
