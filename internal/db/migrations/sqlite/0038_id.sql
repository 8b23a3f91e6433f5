-- The lowest next id of a table whose ids are public. A restore raises it, because the lost
-- database may have used the ids after those of the copy. Without a row, or once an id is at least
-- next, the next id is the highest id plus one.
CREATE TABLE id_floors (
    name TEXT PRIMARY KEY,
    next INTEGER NOT NULL
) STRICT;
