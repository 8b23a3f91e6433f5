-- What the institutions use. As in certificate_counts, each change appends a row and a sweep adds the rows
-- up, so that writers do not wait for each other. month is the year and the month in UTC, such as 202611.
-- certificates are those that were accepted in the month: at once, with a batch, or with the approval of an
-- application. The entries of a batch are counted with the batch, by package quota. bytes are those of the
-- files of certificates, and of staged files. changed_at is the time of the last change. certificate_id is
-- that of a certificate of usage_counting, and otherwise NULL.
--
-- No release has the migration 0074, which is replaced by this one: it counted all certificates in its
-- transaction, and all writers waited for it. A vault that has its tables counts again.
DROP TRIGGER IF EXISTS certificates_usage ON certificates;
DROP TRIGGER IF EXISTS certificates_usage_update ON certificates;
DROP TRIGGER IF EXISTS staged_files_usage ON staged_files;
DROP TRIGGER IF EXISTS staged_files_usage_delete ON staged_files;
DROP TRIGGER IF EXISTS staged_files_usage_update ON staged_files;
DROP TABLE IF EXISTS institution_usage;

CREATE TABLE institution_usage (
    id             BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    institution_id BIGINT NOT NULL,
    month          BIGINT NOT NULL,
    certificates   BIGINT NOT NULL,
    bytes          BIGINT NOT NULL,
    changed_at     BIGINT NOT NULL,
    certificate_id BIGINT
);
CREATE INDEX institution_usage_key_idx ON institution_usage (institution_id, month, certificates, bytes, changed_at);
CREATE INDEX institution_usage_certificate_id_idx ON institution_usage (certificate_id) WHERE certificate_id IS NOT NULL;

-- The certificates that existed before the triggers and are not counted yet: those with an id above
-- counted_id, up to last_id. A task of package quota counts them in steps, and then deletes the row.
CREATE TABLE usage_counting (
    id         BIGINT PRIMARY KEY CHECK (id = 1),
    counted_id BIGINT NOT NULL,
    last_id    BIGINT NOT NULL
);

CREATE OR REPLACE FUNCTION month_of(at BIGINT) RETURNS BIGINT LANGUAGE sql IMMUTABLE AS $$
    SELECT to_char(to_timestamp(at / 1000000) AT TIME ZONE 'UTC', 'YYYYMM')::bigint
$$;
-- The bytes of a certificate: the verified PDF, and the original too if it is stored apart.
CREATE OR REPLACE FUNCTION bytes_of(size BIGINT, verified_size BIGINT, whole BOOLEAN, files_ended_at BIGINT) RETURNS BIGINT LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN files_ended_at IS NOT NULL THEN 0 ELSE coalesce(verified_size, size) + CASE WHEN whole THEN size ELSE 0 END END
$$;

-- The row of a change of a certificate that is not counted yet is marked with its id: the step that counts the
-- certificate knows from the mark that the change is in the record already. This may miss a step that is
-- just being committed. Such a step did not see the change either, so the row stays, as it must.
CREATE OR REPLACE FUNCTION certificates_usage() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    changed   BIGINT := CASE WHEN TG_OP = 'DELETE' THEN OLD.id ELSE NEW.id END;
    uncounted BIGINT := (SELECT changed FROM usage_counting WHERE changed > counted_id AND changed <= last_id);
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO institution_usage (institution_id, month, certificates, bytes, changed_at, certificate_id) VALUES (
            NEW.institution_id, month_of(NEW.created_at), CASE WHEN NEW.source <> 'customer' AND NEW.batch_id IS NULL THEN 1 ELSE 0 END,
            bytes_of(NEW.size, NEW.verified_size, NEW.whole, NEW.files_ended_at), NEW.updated_at, uncounted);
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO institution_usage (institution_id, month, certificates, bytes, changed_at, certificate_id) VALUES (
            NEW.institution_id, month_of(NEW.updated_at),
            CASE WHEN NEW.source = 'customer' AND OLD.status IN ('pending', 'in_review') AND NEW.status = 'processing' THEN 1 ELSE 0 END,
            bytes_of(NEW.size, NEW.verified_size, NEW.whole, NEW.files_ended_at) - bytes_of(OLD.size, OLD.verified_size, OLD.whole, OLD.files_ended_at),
            NEW.updated_at, uncounted);
    ELSE
        INSERT INTO institution_usage (institution_id, month, certificates, bytes, changed_at, certificate_id) VALUES (
            OLD.institution_id, month_of(OLD.updated_at), 0, -bytes_of(OLD.size, OLD.verified_size, OLD.whole, OLD.files_ended_at), OLD.updated_at, uncounted);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER certificates_usage AFTER INSERT OR DELETE ON certificates FOR EACH ROW EXECUTE FUNCTION certificates_usage();
CREATE TRIGGER certificates_usage_update AFTER UPDATE OF status, size, verified_size, whole, files_ended_at ON certificates FOR EACH ROW
    WHEN (OLD.size <> NEW.size OR OLD.verified_size IS DISTINCT FROM NEW.verified_size OR OLD.whole <> NEW.whole
        OR OLD.files_ended_at IS DISTINCT FROM NEW.files_ended_at
        OR NEW.source = 'customer' AND OLD.status IN ('pending', 'in_review') AND NEW.status = 'processing')
    EXECUTE FUNCTION certificates_usage();

CREATE OR REPLACE FUNCTION staged_files_usage() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO institution_usage (institution_id, month, certificates, bytes, changed_at)
            VALUES (NEW.institution_id, month_of(NEW.created_at), 0, NEW.size, NEW.created_at);
    ELSE
        INSERT INTO institution_usage (institution_id, month, certificates, bytes, changed_at)
            VALUES (OLD.institution_id, month_of(OLD.created_at), 0, -OLD.size, OLD.created_at);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER staged_files_usage AFTER INSERT ON staged_files FOR EACH ROW EXECUTE FUNCTION staged_files_usage();
CREATE TRIGGER staged_files_usage_delete AFTER DELETE ON staged_files FOR EACH ROW WHEN (NOT OLD.kept) EXECUTE FUNCTION staged_files_usage();
CREATE TRIGGER staged_files_usage_update AFTER UPDATE OF kept ON staged_files FOR EACH ROW WHEN (NEW.kept AND NOT OLD.kept) EXECUTE FUNCTION staged_files_usage();

-- The creation of the triggers waits until all earlier changes are committed. Staged files are few.
INSERT INTO usage_counting (id, counted_id, last_id) SELECT 1, 0, max(id) FROM certificates HAVING max(id) > 0;
INSERT INTO institution_usage (institution_id, month, certificates, bytes, changed_at)
    SELECT institution_id, month_of(max(created_at)), 0, sum(size), max(created_at) FROM staged_files WHERE NOT kept GROUP BY 1;
