-- The columns by which lists of certificates are sorted and counted, and the text that is
-- searched. The database derives them from the record, so that every writer maintains them,
-- even the binary of the previous release.

-- The name in the form in which it is compared: the first line of search_text.
ALTER TABLE certificates ADD COLUMN name_folded TEXT
    GENERATED ALWAYS AS (substr(search_text, 2, instr(search_text, char(10)) - 2)) VIRTUAL;
-- The time at which the verified PDF was generated, or 0 if it does not exist, because a
-- sort requires a value. It is never before created_at, even if a clock was set back.
ALTER TABLE certificates ADD COLUMN generated_at INTEGER
    GENERATED ALWAYS AS (CASE WHEN approved_at IS NULL THEN 0 WHEN approved_at < created_at THEN created_at ELSE approved_at END) VIRTUAL;

-- A sort without a status merges the results for each status, because there are only a few.
CREATE INDEX certificates_name_folded_idx ON certificates (institution_id, source, status, name_folded, created_at, id);
CREATE INDEX certificates_email_folded_idx ON certificates (institution_id, source, status, email_folded, created_at, id);
CREATE INDEX certificates_status_issue_date_idx ON certificates (institution_id, source, status, issue_date, created_at, id);
CREATE INDEX certificates_issue_date_idx ON certificates (institution_id, source, issue_date, created_at, id);
CREATE INDEX certificates_generated_at_idx ON certificates (institution_id, source, status, generated_at, created_at, id, issue_date);
CREATE INDEX certificates_updated_at_idx ON certificates (institution_id, source, status, updated_at, created_at, id);
CREATE INDEX certificates_customer_id_idx ON certificates (institution_id, customer_id) WHERE customer_id IS NOT NULL;
-- The newest and the oldest certificate in each block of ids, for searches in the order of
-- time: ids follow the time unless a clock was set back.
CREATE INDEX certificates_block_idx ON certificates (institution_id, id / 1024, created_at);

-- The number of certificates is the sum of n. Each change appends a row, and a sweep adds
-- the rows up. If all writers changed the same row, they would wait for each other.
CREATE TABLE certificate_counts (
    id             INTEGER PRIMARY KEY,
    institution_id INTEGER NOT NULL,
    source         TEXT NOT NULL,
    status         TEXT NOT NULL,
    n              INTEGER NOT NULL
) STRICT;
CREATE INDEX certificate_counts_key_idx ON certificate_counts (institution_id, source, status, n);
INSERT INTO certificate_counts (institution_id, source, status, n)
    SELECT institution_id, source, status, count(*) FROM certificates GROUP BY institution_id, source, status;
CREATE TRIGGER certificates_count_insert AFTER INSERT ON certificates BEGIN
    INSERT INTO certificate_counts (institution_id, source, status, n) VALUES (new.institution_id, new.source, new.status, 1);
END;
CREATE TRIGGER certificates_count_update AFTER UPDATE OF institution_id, source, status ON certificates
WHEN (old.institution_id, old.source, old.status) <> (new.institution_id, new.source, new.status) BEGIN
    INSERT INTO certificate_counts (institution_id, source, status, n)
        VALUES (old.institution_id, old.source, old.status, -1), (new.institution_id, new.source, new.status, 1);
END;
CREATE TRIGGER certificates_count_delete AFTER DELETE ON certificates BEGIN
    INSERT INTO certificate_counts (institution_id, source, status, n) VALUES (old.institution_id, old.source, old.status, -1);
END;

-- The trigrams of search_text. The first trigram is the institution, as three letters of
-- the Yi script. White space is doubled, so that the first letter of a word and the white
-- space before it are three characters.
CREATE VIRTUAL TABLE certificate_search USING fts5(text, content = '', contentless_delete = 1, detail = none, tokenize = 'trigram case_sensitive 1');
INSERT INTO certificate_search (rowid, text)
    SELECT id, char(0xA000 + institution_id / 1000000 % 1000, 0xA000 + institution_id / 1000 % 1000, 0xA000 + institution_id % 1000)
        || replace(search_text, ' ', '  ') FROM certificates;
CREATE TRIGGER certificates_search_insert AFTER INSERT ON certificates BEGIN
    INSERT INTO certificate_search (rowid, text)
        VALUES (new.id, char(0xA000 + new.institution_id / 1000000 % 1000, 0xA000 + new.institution_id / 1000 % 1000, 0xA000 + new.institution_id % 1000)
            || replace(new.search_text, ' ', '  '));
END;
CREATE TRIGGER certificates_search_update AFTER UPDATE OF institution_id, search_text ON certificates BEGIN
    UPDATE certificate_search
        SET text = char(0xA000 + new.institution_id / 1000000 % 1000, 0xA000 + new.institution_id / 1000 % 1000, 0xA000 + new.institution_id % 1000)
            || replace(new.search_text, ' ', '  ')
        WHERE rowid = new.id;
END;
CREATE TRIGGER certificates_search_delete AFTER DELETE ON certificates BEGIN
    DELETE FROM certificate_search WHERE rowid = old.id;
END;
