-- How many certificates were made on each day, by where they stand now: the sum
-- of n, kept as certificate_counts is. A day is days since 1970, UTC.
CREATE TABLE certificate_days (
    id             INTEGER PRIMARY KEY,
    institution_id INTEGER NOT NULL,
    day            INTEGER NOT NULL,
    status         TEXT NOT NULL,
    n              INTEGER NOT NULL
) STRICT;
CREATE INDEX certificate_days_key_idx ON certificate_days (institution_id, day, status, n);
INSERT INTO certificate_days (institution_id, day, status, n)
    SELECT institution_id, created_at / 86400000000, status, count(*) FROM certificates GROUP BY 1, 2, 3;
CREATE TRIGGER certificates_day_insert AFTER INSERT ON certificates BEGIN
    INSERT INTO certificate_days (institution_id, day, status, n) VALUES (new.institution_id, new.created_at / 86400000000, new.status, 1);
END;
CREATE TRIGGER certificates_day_update AFTER UPDATE OF institution_id, created_at, status ON certificates
WHEN (old.institution_id, old.created_at / 86400000000, old.status) <> (new.institution_id, new.created_at / 86400000000, new.status) BEGIN
    INSERT INTO certificate_days (institution_id, day, status, n)
        VALUES (old.institution_id, old.created_at / 86400000000, old.status, -1), (new.institution_id, new.created_at / 86400000000, new.status, 1);
END;
CREATE TRIGGER certificates_day_delete AFTER DELETE ON certificates BEGIN
    INSERT INTO certificate_days (institution_id, day, status, n) VALUES (old.institution_id, old.created_at / 86400000000, old.status, -1);
END;

-- What failed, by why.
CREATE INDEX certificates_failure_code_idx ON certificates (institution_id, failure_code, source, created_at, id) WHERE status = 'failed';
