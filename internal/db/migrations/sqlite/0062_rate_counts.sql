-- How many requests of a key a node has counted in a window. On SQLite the table stays empty, because one
-- process counts all requests.
CREATE TABLE rate_counts (
    window_at INTEGER NOT NULL,
    key       BLOB NOT NULL,
    node      TEXT NOT NULL,
    n         INTEGER NOT NULL,
    PRIMARY KEY (window_at, key, node)
) STRICT;
