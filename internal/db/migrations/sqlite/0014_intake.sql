-- Drafts of bulk uploads: a list, its files, the decisions about them and, after
-- submission, the batches that were created from them.
CREATE TABLE intake_drafts (
    id             INTEGER PRIMARY KEY,
    uuid           TEXT NOT NULL,
    institution_id INTEGER NOT NULL REFERENCES institutions (id),
    creator_id     INTEGER NOT NULL,
    creator_name   TEXT NOT NULL,
    actor          TEXT NOT NULL DEFAULT '{}',
    status         TEXT NOT NULL,
    list_name      TEXT NOT NULL DEFAULT '',
    header         TEXT NOT NULL DEFAULT '[]',
    notices        TEXT NOT NULL DEFAULT '[]',
    mapping        TEXT NOT NULL DEFAULT '{}',
    mapped         INTEGER NOT NULL DEFAULT 0,
    total          INTEGER NOT NULL DEFAULT 0,
    created_at     INTEGER NOT NULL,
    expires_at     INTEGER NOT NULL,
    submitted_at   INTEGER,
    CONSTRAINT intake_drafts_uuid_key UNIQUE (uuid)
) STRICT;
CREATE INDEX intake_drafts_institution_id_idx ON intake_drafts (institution_id, id);
CREATE INDEX intake_drafts_expires_at_idx ON intake_drafts (expires_at);
CREATE INDEX intake_drafts_open_idx ON intake_drafts (id) WHERE status = 'submitting';

-- cells are the texts of the list; fixed are the texts that replace them, by field.
CREATE TABLE intake_rows (
    draft_id INTEGER NOT NULL REFERENCES intake_drafts (id),
    number   INTEGER NOT NULL,
    cells    TEXT NOT NULL,
    fixed    TEXT,
    skipped  INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (draft_id, number)
) STRICT;

-- A file that was rejected has a problem and no staged file.
CREATE TABLE intake_files (
    id          INTEGER PRIMARY KEY,
    draft_id    INTEGER NOT NULL REFERENCES intake_drafts (id),
    archive_id  INTEGER,
    path        TEXT NOT NULL,
    size        INTEGER NOT NULL,
    staged_uuid TEXT,
    problem     TEXT NOT NULL DEFAULT '',
    notices     TEXT NOT NULL DEFAULT '[]',
    CONSTRAINT intake_files_path_key UNIQUE (draft_id, path)
) STRICT;

CREATE INDEX intake_files_staged_uuid_idx ON intake_files (staged_uuid) WHERE staged_uuid IS NOT NULL;

-- place is the number of the archive's entries that were processed.
CREATE TABLE intake_archives (
    id         INTEGER PRIMARY KEY,
    draft_id   INTEGER NOT NULL REFERENCES intake_drafts (id),
    name       TEXT NOT NULL,
    blob_key   TEXT NOT NULL,
    status     TEXT NOT NULL,
    entries    INTEGER NOT NULL,
    place      INTEGER NOT NULL DEFAULT 0,
    notices    TEXT NOT NULL DEFAULT '[]'
) STRICT;
CREATE INDEX intake_archives_draft_id_idx ON intake_archives (draft_id);
CREATE INDEX intake_archives_open_idx ON intake_archives (id) WHERE status = 'unpacking';
CREATE INDEX intake_archives_blob_key_idx ON intake_archives (blob_key);

CREATE TABLE intake_batches (
    draft_id   INTEGER NOT NULL REFERENCES intake_drafts (id),
    part       INTEGER NOT NULL,
    batch_uuid TEXT,
    problem    TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (draft_id, part)
) STRICT;

-- The last mapping of the columns of lists with these headers.
CREATE TABLE intake_mappings (
    institution_id INTEGER NOT NULL REFERENCES institutions (id),
    headers        BLOB NOT NULL,
    mapping        TEXT NOT NULL,
    used_at        INTEGER NOT NULL,
    PRIMARY KEY (institution_id, headers)
) STRICT;

-- Operations on many certificates, which are performed step by step.
CREATE TABLE certificate_deeds (
    id             INTEGER PRIMARY KEY,
    uuid           TEXT NOT NULL,
    institution_id INTEGER NOT NULL REFERENCES institutions (id),
    kind           TEXT NOT NULL,
    filter         TEXT NOT NULL,
    reason         TEXT NOT NULL DEFAULT '',
    note           TEXT NOT NULL DEFAULT '',
    actor          TEXT NOT NULL,
    place          TEXT NOT NULL DEFAULT '',
    done           INTEGER NOT NULL DEFAULT 0,
    passed_over    INTEGER NOT NULL DEFAULT 0,
    created_at     INTEGER NOT NULL,
    finished_at    INTEGER,
    CONSTRAINT certificate_deeds_uuid_key UNIQUE (uuid)
) STRICT;
CREATE INDEX certificate_deeds_open_idx ON certificate_deeds (id) WHERE finished_at IS NULL;

-- The placement of the stamp of one certificate, instead of the institution's placement.
ALTER TABLE certificates ADD COLUMN wanted_placement TEXT;

-- The number of certificates that reached each status on each day (UTC, counted from 1970).
-- As in certificate_counts, each change appends a row and a sweep adds the rows up. The
-- event on the day on which a record is created is "created".
CREATE TABLE certificate_days (
    id             INTEGER PRIMARY KEY,
    institution_id INTEGER NOT NULL,
    day            INTEGER NOT NULL,
    event          TEXT NOT NULL,
    n              INTEGER NOT NULL
) STRICT;
CREATE INDEX certificate_days_key_idx ON certificate_days (institution_id, day, event, n);
INSERT INTO certificate_days (institution_id, day, event, n)
    SELECT institution_id, created_at / 86400000000, 'created', count(*) FROM certificates GROUP BY 1, 2;
INSERT INTO certificate_days (institution_id, day, event, n)
    SELECT institution_id, approved_at / 86400000000, 'approved', count(*) FROM certificates WHERE approved_at IS NOT NULL GROUP BY 1, 2;
INSERT INTO certificate_days (institution_id, day, event, n)
    SELECT institution_id, revoked_at / 86400000000, 'revoked', count(*) FROM certificates WHERE revoked_at IS NOT NULL GROUP BY 1, 2;
INSERT INTO certificate_days (institution_id, day, event, n)
    SELECT institution_id, updated_at / 86400000000, 'failed', count(*) FROM certificates WHERE status = 'failed' GROUP BY 1, 2;
CREATE TRIGGER certificates_day_insert AFTER INSERT ON certificates BEGIN
    INSERT INTO certificate_days (institution_id, day, event, n) VALUES (new.institution_id, new.created_at / 86400000000, 'created', 1);
    INSERT INTO certificate_days (institution_id, day, event, n)
        SELECT new.institution_id, new.updated_at / 86400000000, new.status, 1 WHERE new.status <> 'processing';
END;
CREATE TRIGGER certificates_day_update AFTER UPDATE OF status ON certificates
WHEN old.status <> new.status AND new.status <> 'processing' BEGIN
    INSERT INTO certificate_days (institution_id, day, event, n) VALUES (new.institution_id, new.updated_at / 86400000000, new.status, 1);
END;

-- The reasons why certificates fail.
CREATE INDEX certificates_failure_code_idx ON certificates (institution_id, failure_code) WHERE failure_code IS NOT NULL;
