-- By which a process sees that its master key is the one that the database's
-- secrets were encrypted with.
CREATE TABLE key_checks (
    id    BIGINT PRIMARY KEY CHECK (id = 1),
    value BYTEA NOT NULL
);
