-- A process compares this value to check that its master key is the key with which the
-- secrets in the database were encrypted.
CREATE TABLE key_checks (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    value BLOB NOT NULL
) STRICT;
