-- By which a process sees that its master key is the one that the database's
-- secrets were encrypted with.
CREATE TABLE key_checks (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    value BLOB NOT NULL
) STRICT;
