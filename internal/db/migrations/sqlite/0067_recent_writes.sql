-- When a person or token last wrote, for reads from a replica. On SQLite the table stays empty, because
-- there are no replicas.
CREATE TABLE recent_writes (
    actor TEXT PRIMARY KEY,
    at    INTEGER NOT NULL
) STRICT;
