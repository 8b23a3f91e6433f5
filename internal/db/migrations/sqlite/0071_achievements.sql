-- The achievements of institutions: what the credentials of certificates with a title say about it.
-- criteria is text, criteria_url an address; one of the two may be empty. skills is a JSON array of
-- texts. picture is PNG; picture and picture_sha256 are null if there is none.
CREATE TABLE achievements (
    uuid           TEXT PRIMARY KEY,
    institution_id INTEGER NOT NULL REFERENCES institutions (id),
    title          TEXT NOT NULL,
    description    TEXT NOT NULL,
    criteria       TEXT NOT NULL,
    criteria_url   TEXT NOT NULL,
    skills         TEXT NOT NULL,
    picture        BLOB,
    picture_sha256 BLOB,
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    CONSTRAINT achievements_institution_id_title_key UNIQUE (institution_id, title)
) STRICT;
