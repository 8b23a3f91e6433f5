-- When a person or token last wrote, for reads from a replica. A crash of PostgreSQL may empty the
-- table, which is harmless: after the restart, a replica has the earlier writes.
CREATE UNLOGGED TABLE recent_writes (
    actor TEXT PRIMARY KEY,
    at    BIGINT NOT NULL
);
