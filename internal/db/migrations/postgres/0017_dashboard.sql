-- How many certificates were made on each day, by where they stand now: the sum
-- of n, kept as certificate_counts is. A day is days since 1970, UTC.
CREATE TABLE certificate_days (
    id             BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    institution_id BIGINT NOT NULL,
    day            BIGINT NOT NULL,
    status         TEXT NOT NULL,
    n              BIGINT NOT NULL
);
CREATE INDEX certificate_days_key_idx ON certificate_days (institution_id, day, status, n);
INSERT INTO certificate_days (institution_id, day, status, n)
    SELECT institution_id, created_at / 86400000000, status, count(*) FROM certificates GROUP BY 1, 2, 3;
CREATE FUNCTION certificates_day() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        INSERT INTO certificate_days (institution_id, day, status, n) VALUES (OLD.institution_id, OLD.created_at / 86400000000, OLD.status, -1);
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO certificate_days (institution_id, day, status, n) VALUES (NEW.institution_id, NEW.created_at / 86400000000, NEW.status, 1);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER certificates_day AFTER INSERT OR DELETE ON certificates FOR EACH ROW EXECUTE FUNCTION certificates_day();
CREATE TRIGGER certificates_day_update AFTER UPDATE OF institution_id, created_at, status ON certificates FOR EACH ROW
    WHEN ((OLD.institution_id, OLD.created_at / 86400000000, OLD.status) <> (NEW.institution_id, NEW.created_at / 86400000000, NEW.status))
    EXECUTE FUNCTION certificates_day();

-- What failed, by why.
CREATE INDEX certificates_failure_code_idx ON certificates (institution_id, failure_code, source, created_at, id) WHERE status = 'failed';
