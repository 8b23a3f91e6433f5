-- What the institutions use. As in certificate_counts, each change appends a row and a sweep adds the rows
-- up, so that writers do not wait for each other. month is the year and the month in UTC, such as 202611.
-- certificates are those that were accepted in the month: at once, with a batch, or with the approval of an
-- application. The entries of a batch are counted with the batch, by package quota. bytes are those of the
-- files of certificates, and of staged files. changed_at is the time of the last change.
CREATE TABLE institution_usage (
    id             BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    institution_id BIGINT NOT NULL,
    month          BIGINT NOT NULL,
    certificates   BIGINT NOT NULL,
    bytes          BIGINT NOT NULL,
    changed_at     BIGINT NOT NULL
);
CREATE INDEX institution_usage_key_idx ON institution_usage (institution_id, month, certificates, bytes, changed_at);

CREATE FUNCTION month_of(at BIGINT) RETURNS BIGINT LANGUAGE sql IMMUTABLE AS $$
    SELECT to_char(to_timestamp(at / 1000000) AT TIME ZONE 'UTC', 'YYYYMM')::bigint
$$;
-- The bytes of a certificate: the verified PDF, and the original too if it is stored apart.
CREATE FUNCTION bytes_of(size BIGINT, verified_size BIGINT, whole BOOLEAN, files_ended_at BIGINT) RETURNS BIGINT LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN files_ended_at IS NOT NULL THEN 0 ELSE coalesce(verified_size, size) + CASE WHEN whole THEN size ELSE 0 END END
$$;

CREATE FUNCTION certificates_usage() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO institution_usage (institution_id, month, certificates, bytes, changed_at) VALUES (
            NEW.institution_id, month_of(NEW.created_at), CASE WHEN NEW.source <> 'customer' AND NEW.batch_id IS NULL THEN 1 ELSE 0 END,
            bytes_of(NEW.size, NEW.verified_size, NEW.whole, NEW.files_ended_at), NEW.updated_at);
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO institution_usage (institution_id, month, certificates, bytes, changed_at) VALUES (
            NEW.institution_id, month_of(NEW.updated_at),
            CASE WHEN NEW.source = 'customer' AND OLD.status IN ('pending', 'in_review') AND NEW.status = 'processing' THEN 1 ELSE 0 END,
            bytes_of(NEW.size, NEW.verified_size, NEW.whole, NEW.files_ended_at) - bytes_of(OLD.size, OLD.verified_size, OLD.whole, OLD.files_ended_at),
            NEW.updated_at);
    ELSE
        INSERT INTO institution_usage (institution_id, month, certificates, bytes, changed_at) VALUES (
            OLD.institution_id, month_of(OLD.updated_at), 0, -bytes_of(OLD.size, OLD.verified_size, OLD.whole, OLD.files_ended_at), OLD.updated_at);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER certificates_usage AFTER INSERT OR DELETE ON certificates FOR EACH ROW EXECUTE FUNCTION certificates_usage();
CREATE TRIGGER certificates_usage_update AFTER UPDATE OF status, size, verified_size, whole, files_ended_at ON certificates FOR EACH ROW
    WHEN (OLD.size <> NEW.size OR OLD.verified_size IS DISTINCT FROM NEW.verified_size OR OLD.whole <> NEW.whole
        OR OLD.files_ended_at IS DISTINCT FROM NEW.files_ended_at
        OR NEW.source = 'customer' AND OLD.status IN ('pending', 'in_review') AND NEW.status = 'processing')
    EXECUTE FUNCTION certificates_usage();

CREATE FUNCTION staged_files_usage() RETURNS trigger LANGUAGE plpgsql AS $$
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

INSERT INTO institution_usage (institution_id, month, certificates, bytes, changed_at)
    SELECT institution_id, month_of(created_at), count(*) FILTER (WHERE source <> 'customer' OR status NOT IN ('pending', 'in_review', 'rejected', 'withdrawn', 'expired')),
        sum(bytes_of(size, verified_size, whole, files_ended_at)), max(updated_at)
    FROM certificates GROUP BY 1, 2;
INSERT INTO institution_usage (institution_id, month, certificates, bytes, changed_at)
    SELECT institution_id, month_of(max(created_at)), 0, sum(size), max(created_at) FROM staged_files WHERE NOT kept GROUP BY 1;
