-- The places of credentials that were revoked by their files. Their certificates are not in the database,
-- because it was restored from a backup that is older than they are. certificate is the uuid of the
-- certificate, revoked_by the name of the person at the command line. A row is never changed or deleted. The
-- time is in microseconds.
CREATE TABLE credential_revocations (
    list           TEXT NOT NULL,
    position       INTEGER NOT NULL,
    institution_id INTEGER NOT NULL REFERENCES institutions (id),
    certificate    TEXT NOT NULL,
    reason         TEXT NOT NULL,
    revoked_by     TEXT NOT NULL,
    revoked_at     INTEGER NOT NULL,
    PRIMARY KEY (list, position)
) STRICT, WITHOUT ROWID;
