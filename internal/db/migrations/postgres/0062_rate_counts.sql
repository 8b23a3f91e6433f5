-- How many requests of a key a node has counted in a window, for keys with more than a tenth of their limit.
-- A crash of PostgreSQL may empty the table, which is harmless: the counts are those of one minute.
CREATE UNLOGGED TABLE rate_counts (
    window_at BIGINT NOT NULL,
    key       BYTEA NOT NULL,
    node      TEXT NOT NULL,
    n         BIGINT NOT NULL,
    PRIMARY KEY (window_at, key, node)
);
