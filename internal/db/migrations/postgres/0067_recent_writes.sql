-- When a person or token last wrote, for reads from a replica. A crash of the server may empty the table:
-- a replica then has all that the server has.
CREATE UNLOGGED TABLE recent_writes (
    actor TEXT PRIMARY KEY,
    at    BIGINT NOT NULL
);
