-- What the institutions use. As in certificate_counts, each change appends a row and a sweep adds the rows
-- up. month is the year and the month in UTC, such as 202611. certificates are those that were accepted in
-- the month: at once, with a batch, or with the approval of an application. The entries of a batch are
-- counted with the batch, by package quota. bytes are those of the files of certificates, and of staged
-- files. changed_at is the time of the last change. certificate_id is that of a certificate of
-- usage_counting, and otherwise NULL.
--
-- No release has the migration 0074, which is replaced by this one: it counted all certificates in its
-- transaction. A vault that has its tables counts again.
DROP TRIGGER IF EXISTS certificates_usage;
DROP TRIGGER IF EXISTS certificates_usage_delete;
DROP TRIGGER IF EXISTS certificates_usage_update;
DROP TRIGGER IF EXISTS staged_files_usage;
DROP TRIGGER IF EXISTS staged_files_usage_delete;
DROP TRIGGER IF EXISTS staged_files_usage_update;
DROP TABLE IF EXISTS institution_usage;

CREATE TABLE institution_usage (
    id             INTEGER PRIMARY KEY,
    institution_id INTEGER NOT NULL,
    month          INTEGER NOT NULL,
    certificates   INTEGER NOT NULL,
    bytes          INTEGER NOT NULL,
    changed_at     INTEGER NOT NULL,
    certificate_id INTEGER
) STRICT;
CREATE INDEX institution_usage_key_idx ON institution_usage (institution_id, month, certificates, bytes, changed_at);
CREATE INDEX institution_usage_certificate_id_idx ON institution_usage (certificate_id) WHERE certificate_id IS NOT NULL;

-- The certificates that existed before the triggers and are not counted yet: those with an id above
-- counted_id, up to last_id. A task of package quota counts them in steps, and then deletes the row. The row
-- of a change of such a certificate is marked with its id: the step that counts the certificate knows from
-- the mark that the change is in the record already.
CREATE TABLE usage_counting (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    counted_id INTEGER NOT NULL,
    last_id    INTEGER NOT NULL
) STRICT;

-- The bytes of a certificate are those of the verified PDF, and of the original too if it is stored apart.
CREATE TRIGGER certificates_usage AFTER INSERT ON certificates BEGIN
    INSERT INTO institution_usage (institution_id, month, certificates, bytes, changed_at, certificate_id) VALUES (
        new.institution_id, CAST(strftime('%Y%m', new.created_at / 1000000, 'unixepoch') AS INTEGER), new.source <> 'customer' AND new.batch_id IS NULL,
        CASE WHEN new.files_ended_at IS NOT NULL THEN 0 ELSE coalesce(new.verified_size, new.size) + new.whole * new.size END, new.updated_at,
        (SELECT new.id FROM usage_counting WHERE new.id > counted_id AND new.id <= last_id));
END;
CREATE TRIGGER certificates_usage_delete AFTER DELETE ON certificates BEGIN
    INSERT INTO institution_usage (institution_id, month, certificates, bytes, changed_at, certificate_id) VALUES (
        old.institution_id, CAST(strftime('%Y%m', old.updated_at / 1000000, 'unixepoch') AS INTEGER), 0,
        -CASE WHEN old.files_ended_at IS NOT NULL THEN 0 ELSE coalesce(old.verified_size, old.size) + old.whole * old.size END, old.updated_at,
        (SELECT old.id FROM usage_counting WHERE old.id > counted_id AND old.id <= last_id));
END;
CREATE TRIGGER certificates_usage_update AFTER UPDATE OF status, size, verified_size, whole, files_ended_at ON certificates
WHEN old.size <> new.size OR old.verified_size IS NOT new.verified_size OR old.whole <> new.whole OR old.files_ended_at IS NOT new.files_ended_at
    OR new.source = 'customer' AND old.status IN ('pending', 'in_review') AND new.status = 'processing' BEGIN
    INSERT INTO institution_usage (institution_id, month, certificates, bytes, changed_at, certificate_id) VALUES (
        new.institution_id, CAST(strftime('%Y%m', new.updated_at / 1000000, 'unixepoch') AS INTEGER),
        new.source = 'customer' AND old.status IN ('pending', 'in_review') AND new.status = 'processing',
        CASE WHEN new.files_ended_at IS NOT NULL THEN 0 ELSE coalesce(new.verified_size, new.size) + new.whole * new.size END
            - CASE WHEN old.files_ended_at IS NOT NULL THEN 0 ELSE coalesce(old.verified_size, old.size) + old.whole * old.size END, new.updated_at,
        (SELECT new.id FROM usage_counting WHERE new.id > counted_id AND new.id <= last_id));
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

INSERT INTO usage_counting (id, counted_id, last_id) SELECT 1, 0, max(id) FROM certificates HAVING max(id) > 0;
-- Staged files are few.
INSERT INTO institution_usage (institution_id, month, certificates, bytes, changed_at)
    SELECT institution_id, CAST(strftime('%Y%m', max(created_at) / 1000000, 'unixepoch') AS INTEGER), 0, sum(size), max(created_at)
    FROM staged_files WHERE NOT kept GROUP BY 1;
