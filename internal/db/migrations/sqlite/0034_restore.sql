-- The last restore of this database from a backup, at most one row. copied_at is the time of the
-- backup. While accepted_at is NULL, files are deleted only on request. A drill sends no mail and no
-- webhooks. Times are in microseconds.
CREATE TABLE restores (
    id          INTEGER PRIMARY KEY CHECK (id = 1),
    copied_at   INTEGER NOT NULL,
    restored_at INTEGER NOT NULL,
    accepted_at INTEGER,
    drill       INTEGER NOT NULL CHECK (drill IN (0, 1))
) STRICT;
