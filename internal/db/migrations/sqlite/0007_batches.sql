-- Files that are stored before the entries of bulk uploads refer to them. kept is true if
-- an accepted batch refers to the file: the file then no longer counts as staged.
CREATE TABLE staged_files (
    id             INTEGER PRIMARY KEY,
    uuid           TEXT NOT NULL,
    institution_id INTEGER NOT NULL REFERENCES institutions (id),
    file_name      TEXT NOT NULL,
    mime_type      TEXT NOT NULL,
    size           INTEGER NOT NULL,
    sha256         BLOB NOT NULL,
    sha256_state   BLOB NOT NULL,
    original_key   TEXT NOT NULL,
    notices        TEXT NOT NULL,
    kept           INTEGER NOT NULL DEFAULT 0,
    created_at     INTEGER NOT NULL,
    expires_at     INTEGER NOT NULL,
    CONSTRAINT staged_files_uuid_key UNIQUE (uuid)
) STRICT;
CREATE INDEX staged_files_original_key_idx ON staged_files (original_key);
CREATE INDEX staged_files_expires_at_idx ON staged_files (expires_at);
CREATE INDEX staged_files_counted_idx ON staged_files (institution_id, expires_at) WHERE NOT kept;

-- The number of bytes of an institution's staged files.
CREATE TABLE staged_usage (
    institution_id INTEGER PRIMARY KEY REFERENCES institutions (id),
    bytes          INTEGER NOT NULL
) STRICT;

CREATE TABLE batches (
    id              INTEGER PRIMARY KEY,
    uuid            TEXT NOT NULL,
    institution_id  INTEGER NOT NULL REFERENCES institutions (id),
    name            TEXT NOT NULL,
    source          TEXT NOT NULL,
    trigger_context TEXT NOT NULL,
    creator_type    TEXT NOT NULL,
    creator_id      INTEGER,
    creator_name    TEXT NOT NULL,
    total           INTEGER NOT NULL,
    expanded        INTEGER NOT NULL DEFAULT 0,
    created_at      INTEGER NOT NULL,
    CONSTRAINT batches_uuid_key UNIQUE (uuid)
) STRICT;
CREATE INDEX batches_created_at_idx ON batches (institution_id, created_at, id);
CREATE INDEX batches_open_idx ON batches (institution_id, id) WHERE NOT expanded;

-- The entries of a batch. A queued entry has its input and its file. An entry that became a
-- certificate or was rejected has the certificate or the error instead, and no input.
CREATE TABLE batch_entries (
    batch_id       INTEGER NOT NULL REFERENCES batches (id),
    entry_index    INTEGER NOT NULL,
    status         TEXT NOT NULL,
    input          TEXT,
    staged_id      INTEGER,
    certificate_id INTEGER,
    error_code     TEXT,
    error          TEXT,
    existing_uuid  TEXT,
    done_at        INTEGER,
    PRIMARY KEY (batch_id, entry_index)
) STRICT;
CREATE INDEX batch_entries_status_idx ON batch_entries (batch_id, status, entry_index) WHERE status <> 'made';
CREATE INDEX batch_entries_staged_id_idx ON batch_entries (staged_id) WHERE staged_id IS NOT NULL;

-- The time at which entries of an institution last became certificates. It determines which
-- institution is next.
CREATE TABLE batch_turns (
    institution_id INTEGER PRIMARY KEY REFERENCES institutions (id),
    served_at      INTEGER NOT NULL
) STRICT;

-- The progress of a batch, without reading its certificates.
CREATE INDEX certificates_batch_id_idx ON certificates (batch_id, status, approved_at, updated_at) WHERE batch_id IS NOT NULL;
-- The certificates of batches: those without a job yet, and those with a job.
CREATE INDEX certificates_unfed_idx ON certificates (institution_id, id)
    WHERE status = 'processing' AND batch_id IS NOT NULL AND job_id IS NULL;
CREATE INDEX certificates_fed_idx ON certificates (institution_id, job_id)
    WHERE status = 'processing' AND batch_id IS NOT NULL AND job_id IS NOT NULL;
