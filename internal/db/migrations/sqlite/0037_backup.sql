-- The scheduled backups of this installation: always one row. every_seconds is 0 if no server makes
-- backups at intervals. leased_by makes a backup until leased_until at the latest, unless it renews
-- the lease. completed_at and the columns after it describe the last complete backup, scheduled or
-- not; files_missing is the number of files that the store lacked. failure is the error of the last
-- scheduled backup, or ''. Times are in microseconds; 0 means never.
CREATE TABLE backups (
    id             INTEGER PRIMARY KEY CHECK (id = 1),
    every_seconds  INTEGER NOT NULL DEFAULT 0,
    leased_by      TEXT    NOT NULL DEFAULT '',
    leased_until   INTEGER NOT NULL DEFAULT 0,
    started_at     INTEGER NOT NULL DEFAULT 0,
    failed_at      INTEGER NOT NULL DEFAULT 0,
    failure        TEXT    NOT NULL DEFAULT '',
    completed_at   INTEGER NOT NULL DEFAULT 0,
    dir            TEXT    NOT NULL DEFAULT '',
    files          INTEGER NOT NULL DEFAULT 0,
    bytes          INTEGER NOT NULL DEFAULT 0,
    files_missing  INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO backups (id) VALUES (1);
