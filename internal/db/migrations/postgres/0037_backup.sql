-- The scheduled backups of this installation: always one row. every_seconds is 0 if no server makes
-- backups at intervals. leased_by makes a backup until leased_until at the latest, unless it renews
-- the lease. completed_at and the columns after it describe the last complete backup, scheduled or
-- not; files_missing is the number of files that the store lacked. failure is the error of the last
-- scheduled backup, or ''. Times are in microseconds; 0 means never.
CREATE TABLE backups (
    id             BIGINT PRIMARY KEY CHECK (id = 1),
    every_seconds  BIGINT NOT NULL DEFAULT 0,
    leased_by      TEXT    NOT NULL DEFAULT '',
    leased_until   BIGINT NOT NULL DEFAULT 0,
    started_at     BIGINT NOT NULL DEFAULT 0,
    failed_at      BIGINT NOT NULL DEFAULT 0,
    failure        TEXT    NOT NULL DEFAULT '',
    completed_at   BIGINT NOT NULL DEFAULT 0,
    dir            TEXT    NOT NULL DEFAULT '',
    files          BIGINT NOT NULL DEFAULT 0,
    bytes          BIGINT NOT NULL DEFAULT 0,
    files_missing  BIGINT NOT NULL DEFAULT 0
);
INSERT INTO backups (id) VALUES (1);
