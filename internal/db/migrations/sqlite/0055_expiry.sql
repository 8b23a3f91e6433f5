-- expires_on is the last day on which a certificate is valid, in UTC, or NULL. The index has all that the
-- lists by this day need. It is partial, so that certificates that do not expire cost nothing.
ALTER TABLE certificates ADD COLUMN expires_on TEXT;
CREATE INDEX certificates_expires_on_idx ON certificates (institution_id, source, expires_on, created_at, id, status) WHERE expires_on IS NOT NULL;

-- The approved certificates whose expiry is still to be reported. Days are numbers of days since 1970.
-- due_day is the day from which the next event is due. days is the institution's number of days before
-- the expiry from which due_day was computed, and NULL once no reminder is due. A row is deleted with the
-- last event, and with the revocation.
CREATE TABLE certificate_expiries (
    certificate_id INTEGER PRIMARY KEY REFERENCES certificates (id),
    institution_id INTEGER NOT NULL,
    expires_day    INTEGER NOT NULL,
    due_day        INTEGER NOT NULL,
    days           INTEGER
) STRICT;
CREATE INDEX certificate_expiries_due_day_idx ON certificate_expiries (due_day, certificate_id);
CREATE INDEX certificate_expiries_days_idx ON certificate_expiries (institution_id, days) WHERE days IS NOT NULL;

-- When an institution is told of an expiry, and whether the recipient gets a mail. expiry_applied is the
-- number of days from which the rows of certificate_expiries were computed.
ALTER TABLE institutions ADD COLUMN expiry_days INTEGER NOT NULL DEFAULT 30;
ALTER TABLE institutions ADD COLUMN expiry_applied INTEGER NOT NULL DEFAULT 30;
ALTER TABLE institutions ADD COLUMN expiry_mail INTEGER NOT NULL DEFAULT 1;
-- The index finds the institutions whose rows must be computed again.
CREATE INDEX institutions_expiry_idx ON institutions (id) WHERE expiry_days <> expiry_applied;

-- An older binary would show an expired certificate as valid.
UPDATE schema_floor SET version = 55, release = '0.2.0' WHERE version < 55;
