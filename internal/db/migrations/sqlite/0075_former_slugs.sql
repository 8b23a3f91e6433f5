-- The slugs that institutions had before. Their addresses redirect to the current slug, and no other
-- institution can have them.
CREATE TABLE former_slugs (
    slug           TEXT PRIMARY KEY,
    institution_id INTEGER NOT NULL REFERENCES institutions (id),
    given_up_at    INTEGER NOT NULL
) STRICT;
CREATE INDEX former_slugs_institution_id_idx ON former_slugs (institution_id);
