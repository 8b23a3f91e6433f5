-- expires_on is the last day on which a certificate is valid, in UTC, or NULL. 0080 creates its index.
ALTER TABLE certificates ADD COLUMN expires_on TEXT COLLATE "C";

-- The approved certificates whose expiry is still to be reported. Days are numbers of days since 1970.
-- due_day is the day from which the next event is due. days is the institution's number of days before
-- the expiry from which due_day was computed, and NULL once no reminder is due. A row is deleted with the
-- last event, and with the revocation.
CREATE TABLE certificate_expiries (
    certificate_id BIGINT PRIMARY KEY REFERENCES certificates (id),
    institution_id BIGINT NOT NULL,
    expires_day    BIGINT NOT NULL,
    due_day        BIGINT NOT NULL,
    days           BIGINT
);
CREATE INDEX certificate_expiries_due_day_idx ON certificate_expiries (due_day, certificate_id);
CREATE INDEX certificate_expiries_days_idx ON certificate_expiries (institution_id, days) WHERE days IS NOT NULL;

-- When an institution is told of an expiry, and whether the recipient gets a mail. expiry_applied is the
-- number of days from which the rows of certificate_expiries were computed.
ALTER TABLE institutions ADD COLUMN expiry_days BIGINT NOT NULL DEFAULT 30;
ALTER TABLE institutions ADD COLUMN expiry_applied BIGINT NOT NULL DEFAULT 30;
ALTER TABLE institutions ADD COLUMN expiry_mail BOOLEAN NOT NULL DEFAULT true;
-- The index finds the institutions whose rows must be computed again.
CREATE INDEX institutions_expiry_idx ON institutions (id) WHERE expiry_days <> expiry_applied;

-- An older binary would show an expired certificate as valid.
UPDATE schema_floor SET version = 55, release = '0.2.0' WHERE version < 55;
