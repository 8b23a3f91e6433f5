-- The periodic tasks, each of which one node runs. until: the end of the node's right, which it renews. It
-- ends earlier if the node is dead. last_at: the end of the last success; took: its duration in microseconds.
CREATE TABLE tasks (
    name    TEXT PRIMARY KEY,
    node    TEXT NOT NULL DEFAULT '',
    until   INTEGER NOT NULL DEFAULT 0,
    last_at INTEGER,
    took    INTEGER
) STRICT;
