-- The oldest binary that can work with this schema. version is the number of its last
-- migration; binaries with a lower number refuse to start. release is its name, for the
-- message. A migration with which the previous release cannot work raises both.
CREATE TABLE schema_floor (
    id      BIGINT PRIMARY KEY CHECK (id = 1),
    version BIGINT NOT NULL,
    release TEXT NOT NULL
);
INSERT INTO schema_floor (id, version, release) VALUES (1, 30, '0.2.0');

-- The installation to which the database belongs. The folder of files has the same id.
CREATE TABLE installations (
    id   BIGINT PRIMARY KEY CHECK (id = 1),
    uuid TEXT NOT NULL
);
