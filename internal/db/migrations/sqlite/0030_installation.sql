-- The oldest binary that can work with this schema. version is the number of its last
-- migration; binaries with a lower number refuse to start. release is its name, for the
-- message. A migration with which the previous release cannot work raises both.
CREATE TABLE schema_floor (
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    version INTEGER NOT NULL,
    release TEXT NOT NULL
) STRICT;
INSERT INTO schema_floor (id, version, release) VALUES (1, 30, '0.2.0');

-- The installation to which the database belongs. The folder of files has the same id.
CREATE TABLE installations (
    id   INTEGER PRIMARY KEY CHECK (id = 1),
    uuid TEXT NOT NULL
) STRICT;
