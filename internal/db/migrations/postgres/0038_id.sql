-- The lowest next id of a table whose ids are public, for SQLite. On PostgreSQL a restore advances
-- the sequences of the tables, and this table is empty.
CREATE TABLE id_floors (
    name TEXT PRIMARY KEY,
    next BIGINT NOT NULL
);
