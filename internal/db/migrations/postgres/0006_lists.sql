-- The columns by which lists of certificates are sorted and counted, and the text that is
-- searched. The database derives them from the record, so that every writer maintains them,
-- even the binary of the previous release.

-- name_folded is the name in the form in which it is compared: the first line of
-- search_text. generated_at is the time at which the verified PDF was generated, or 0 if it
-- does not exist, because a sort requires a value. It is never before created_at, even if a
-- clock was set back. Text is ordered by its bytes, as in SQLite.
ALTER TABLE certificates
    ALTER COLUMN email_folded TYPE TEXT COLLATE "C",
    ALTER COLUMN issue_date TYPE TEXT COLLATE "C",
    ADD COLUMN name_folded TEXT COLLATE "C" GENERATED ALWAYS AS (split_part(substr(search_text, 2), chr(10), 1)) STORED,
    ADD COLUMN generated_at BIGINT
        GENERATED ALWAYS AS (CASE WHEN approved_at IS NULL THEN 0 WHEN approved_at < created_at THEN created_at ELSE approved_at END) STORED;

-- A sort without a status merges the results for each status, because there are only a few.
CREATE INDEX certificates_name_folded_idx ON certificates (institution_id, source, status, name_folded, created_at, id);
CREATE INDEX certificates_email_folded_idx ON certificates (institution_id, source, status, email_folded, created_at, id);
CREATE INDEX certificates_status_issue_date_idx ON certificates (institution_id, source, status, issue_date, created_at, id);
CREATE INDEX certificates_issue_date_idx ON certificates (institution_id, source, issue_date, created_at, id);
CREATE INDEX certificates_generated_at_idx ON certificates (institution_id, source, status, generated_at, created_at, id, issue_date);
CREATE INDEX certificates_updated_at_idx ON certificates (institution_id, source, status, updated_at, created_at, id);
CREATE INDEX certificates_customer_id_idx ON certificates (institution_id, customer_id) WHERE customer_id IS NOT NULL;

-- The number of certificates is the sum of n. Each change appends a row, and a sweep adds
-- the rows up. If all writers changed the same row, they would wait for each other.
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

-- The searched text has its own table, so that a change of the status does not write all
-- trigrams again.
CREATE TABLE certificate_search (
    id             BIGINT PRIMARY KEY,
    institution_id BIGINT NOT NULL,
    source         TEXT NOT NULL,
    created_at     BIGINT NOT NULL,
    text           TEXT NOT NULL
);
-- The frequency of a text determines how it is searched, so it requires detailed
-- statistics.
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

-- Query plans depend on the planner's statistics of an institution, and an index-only scan
-- requires a vacuumed table. Both are therefore updated after 1 or 2 percent of the rows
-- have changed, not after 10 or 20 percent.
ALTER TABLE certificates SET (autovacuum_analyze_scale_factor = 0.01, autovacuum_vacuum_insert_scale_factor = 0.02);
ALTER TABLE certificate_search SET (autovacuum_analyze_scale_factor = 0.01, autovacuum_vacuum_insert_scale_factor = 0.02);
