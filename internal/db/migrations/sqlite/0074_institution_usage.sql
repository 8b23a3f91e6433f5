-- What the institutions use. As in certificate_counts, each change appends a row and a sweep adds the rows
-- up. month is the year and the month in UTC, such as 202611. certificates are those that were accepted in
-- the month: at once, with a batch, or with the approval of an application. The entries of a batch are
-- counted with the batch, by package quota. bytes are those of the files of certificates, and of staged
-- files. changed_at is the time of the last change.
CREATE TABLE institution_usage (
    id             INTEGER PRIMARY KEY,
    institution_id INTEGER NOT NULL,
    month          INTEGER NOT NULL,
    certificates   INTEGER NOT NULL,
    bytes          INTEGER NOT NULL,
    changed_at     INTEGER NOT NULL
) STRICT;
CREATE INDEX institution_usage_key_idx ON institution_usage (institution_id, month, certificates, bytes, changed_at);

-- The bytes of a certificate are those of the verified PDF, and of the original too if it is stored apart.
CREATE TRIGGER certificates_usage AFTER INSERT ON certificates BEGIN
    INSERT INTO institution_usage (institution_id, month, certificates, bytes, changed_at) VALUES (
        new.institution_id, CAST(strftime('%Y%m', new.created_at / 1000000, 'unixepoch') AS INTEGER), new.source <> 'customer' AND new.batch_id IS NULL,
        CASE WHEN new.files_ended_at IS NOT NULL THEN 0 ELSE coalesce(new.verified_size, new.size) + new.whole * new.size END, new.updated_at);
END;
CREATE TRIGGER certificates_usage_delete AFTER DELETE ON certificates BEGIN
    INSERT INTO institution_usage (institution_id, month, certificates, bytes, changed_at) VALUES (
        old.institution_id, CAST(strftime('%Y%m', old.updated_at / 1000000, 'unixepoch') AS INTEGER), 0,
        -CASE WHEN old.files_ended_at IS NOT NULL THEN 0 ELSE coalesce(old.verified_size, old.size) + old.whole * old.size END, old.updated_at);
END;
CREATE TRIGGER certificates_usage_update AFTER UPDATE OF status, size, verified_size, whole, files_ended_at ON certificates
WHEN old.size <> new.size OR old.verified_size IS NOT new.verified_size OR old.whole <> new.whole OR old.files_ended_at IS NOT new.files_ended_at
    OR new.source = 'customer' AND old.status IN ('pending', 'in_review') AND new.status = 'processing' BEGIN
    INSERT INTO institution_usage (institution_id, month, certificates, bytes, changed_at) VALUES (
        new.institution_id, CAST(strftime('%Y%m', new.updated_at / 1000000, 'unixepoch') AS INTEGER),
        new.source = 'customer' AND old.status IN ('pending', 'in_review') AND new.status = 'processing',
        CASE WHEN new.files_ended_at IS NOT NULL THEN 0 ELSE coalesce(new.verified_size, new.size) + new.whole * new.size END
            - CASE WHEN old.files_ended_at IS NOT NULL THEN 0 ELSE coalesce(old.verified_size, old.size) + old.whole * old.size END, new.updated_at);
END;

CREATE TRIGGER staged_files_usage AFTER INSERT ON staged_files BEGIN
    INSERT INTO institution_usage (institution_id, month, certificates, bytes, changed_at)
        VALUES (new.institution_id, CAST(strftime('%Y%m', new.created_at / 1000000, 'unixepoch') AS INTEGER), 0, new.size, new.created_at);
END;
CREATE TRIGGER staged_files_usage_delete AFTER DELETE ON staged_files WHEN NOT old.kept BEGIN
    INSERT INTO institution_usage (institution_id, month, certificates, bytes, changed_at)
        VALUES (old.institution_id, CAST(strftime('%Y%m', old.created_at / 1000000, 'unixepoch') AS INTEGER), 0, -old.size, old.created_at);
END;
CREATE TRIGGER staged_files_usage_update AFTER UPDATE OF kept ON staged_files WHEN new.kept AND NOT old.kept BEGIN
    INSERT INTO institution_usage (institution_id, month, certificates, bytes, changed_at)
        VALUES (old.institution_id, CAST(strftime('%Y%m', old.created_at / 1000000, 'unixepoch') AS INTEGER), 0, -old.size, old.created_at);
END;

INSERT INTO institution_usage (institution_id, month, certificates, bytes, changed_at)
    SELECT institution_id, CAST(strftime('%Y%m', created_at / 1000000, 'unixepoch') AS INTEGER),
        count(*) FILTER (WHERE source <> 'customer' OR status NOT IN ('pending', 'in_review', 'rejected', 'withdrawn', 'expired')),
        sum(CASE WHEN files_ended_at IS NOT NULL THEN 0 ELSE coalesce(verified_size, size) + whole * size END), max(updated_at)
    FROM certificates GROUP BY 1, 2;
INSERT INTO institution_usage (institution_id, month, certificates, bytes, changed_at)
    SELECT institution_id, CAST(strftime('%Y%m', max(created_at) / 1000000, 'unixepoch') AS INTEGER), 0, sum(size), max(created_at)
    FROM staged_files WHERE NOT kept GROUP BY 1;
