-- Files without a row. blob_deletions has the time from which a file may be deleted. A file that was
-- erased on request has erased_at: it is deleted as soon as no row refers to it, and its entry stays,
-- so that the file is deleted again if it comes back from a backup. Keys are in the order of their
-- bytes, as in the file store. Times are in microseconds.
CREATE TABLE blob_deletions (
    key       TEXT COLLATE "C" PRIMARY KEY,
    due_at    BIGINT NOT NULL,
    erased_at BIGINT
);

-- The sweep of the file store, one row. The node whose random text is in claim sweeps. Another node
-- may claim the sweep from next_at on, and continues it after the key after_key.
CREATE TABLE blob_sweeps (
    id         BIGINT PRIMARY KEY CHECK (id = 1),
    claim      TEXT NOT NULL,
    started_at BIGINT NOT NULL,
    next_at    BIGINT NOT NULL,
    after_key  TEXT COLLATE "C" NOT NULL
);
INSERT INTO blob_sweeps (id, claim, started_at, next_at, after_key) VALUES (1, '', 0, 0, '');

-- The keys of files that a certificate no longer refers to, separated by spaces: the files that
-- retention removed, and pictures that were drawn again. An erasure deletes them too.
ALTER TABLE certificates ADD COLUMN former_keys TEXT;
