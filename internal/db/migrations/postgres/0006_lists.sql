-- What lists of certificates sort and count by, and what a search looks in.
-- All of it is derived from the record by the database itself, so that no
-- writer can forget it, not even the binary of the release before.

-- The name in the form in which it is compared: the first line of search_text.
-- generated_at is when the verified PDF was made, 0 as long as it was not: a
-- position among others needs a value. It is never before created_at, whatever
-- clocks did. Text is ordered by its bytes, as SQLite does.
ALTER TABLE certificates
    ALTER COLUMN email_folded TYPE TEXT COLLATE "C",
    ALTER COLUMN issue_date TYPE TEXT COLLATE "C",
    ADD COLUMN name_folded TEXT COLLATE "C" GENERATED ALWAYS AS (split_part(substr(search_text, 2), chr(10), 1)) STORED,
    ADD COLUMN generated_at BIGINT
        GENERATED ALWAYS AS (CASE WHEN approved_at IS NULL THEN 0 WHEN approved_at < created_at THEN created_at ELSE approved_at END) STORED;

-- A sort without a status merges those of the few statuses there are.
CREATE INDEX certificates_name_folded_idx ON certificates (institution_id, source, status, name_folded, created_at, id);
CREATE INDEX certificates_email_folded_idx ON certificates (institution_id, source, status, email_folded, created_at, id);
CREATE INDEX certificates_status_issue_date_idx ON certificates (institution_id, source, status, issue_date, created_at, id);
CREATE INDEX certificates_issue_date_idx ON certificates (institution_id, source, issue_date, created_at, id);
CREATE INDEX certificates_generated_at_idx ON certificates (institution_id, source, status, generated_at, created_at, id, issue_date);
CREATE INDEX certificates_updated_at_idx ON certificates (institution_id, source, status, updated_at, created_at, id);
CREATE INDEX certificates_customer_id_idx ON certificates (institution_id, customer_id) WHERE customer_id IS NOT NULL;

-- How many certificates there are is the sum of n. Each change appends what it
-- changes, and a sweep adds up: one row that all writers change would make them
-- wait for each other.
CREATE TABLE certificate_counts (
    id             BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    institution_id BIGINT NOT NULL,
    source         TEXT NOT NULL,
    status         TEXT NOT NULL,
    n              BIGINT NOT NULL
);
CREATE INDEX certificate_counts_key_idx ON certificate_counts (institution_id, source, status, n);
INSERT INTO certificate_counts (institution_id, source, status, n)
    SELECT institution_id, source, status, count(*) FROM certificates GROUP BY institution_id, source, status;
CREATE FUNCTION certificates_count() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        INSERT INTO certificate_counts (institution_id, source, status, n) VALUES (OLD.institution_id, OLD.source, OLD.status, -1);
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO certificate_counts (institution_id, source, status, n) VALUES (NEW.institution_id, NEW.source, NEW.status, 1);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER certificates_count AFTER INSERT OR DELETE ON certificates FOR EACH ROW EXECUTE FUNCTION certificates_count();
CREATE TRIGGER certificates_count_update AFTER UPDATE OF institution_id, source, status ON certificates FOR EACH ROW
    WHEN ((OLD.institution_id, OLD.source, OLD.status) <> (NEW.institution_id, NEW.source, NEW.status)) EXECUTE FUNCTION certificates_count();

-- What a search looks in is a table of its own, which moves from status to
-- status leave alone: each would write all trigrams anew.
CREATE TABLE certificate_search (
    id             BIGINT PRIMARY KEY,
    institution_id BIGINT NOT NULL,
    source         TEXT NOT NULL,
    created_at     BIGINT NOT NULL,
    text           TEXT NOT NULL
);
-- How common a text is decides how it is searched for, so look closely.
ALTER TABLE certificate_search ALTER COLUMN text SET STATISTICS 1000;
INSERT INTO certificate_search (id, institution_id, source, created_at, text)
    SELECT id, institution_id, source, created_at, search_text FROM certificates;
CREATE INDEX certificate_search_text_idx ON certificate_search USING gin (institution_id, text gin_trgm_ops);
CREATE FUNCTION certificates_search() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        DELETE FROM certificate_search WHERE id = OLD.id;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO certificate_search (id, institution_id, source, created_at, text)
            VALUES (NEW.id, NEW.institution_id, NEW.source, NEW.created_at, NEW.search_text);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER certificates_search AFTER INSERT OR DELETE ON certificates FOR EACH ROW EXECUTE FUNCTION certificates_search();
CREATE TRIGGER certificates_search_update AFTER UPDATE OF institution_id, source, created_at, search_text ON certificates FOR EACH ROW EXECUTE FUNCTION certificates_search();

-- Plans follow from what the planner knows of an institution's size, and an
-- index alone answers where the table was vacuumed: let both be done after one
-- or two changes in a hundred, not after ten or twenty.
ALTER TABLE certificates SET (autovacuum_analyze_scale_factor = 0.01, autovacuum_vacuum_insert_scale_factor = 0.02);
ALTER TABLE certificate_search SET (autovacuum_analyze_scale_factor = 0.01, autovacuum_vacuum_insert_scale_factor = 0.02);
