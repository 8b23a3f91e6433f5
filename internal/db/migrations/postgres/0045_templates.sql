-- The templates of institutions. A template has versions, of which at most one is a draft and at most
-- one is published. name_folded is the name for searches. Times are in microseconds.
CREATE TABLE templates (
    id             BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    uuid           TEXT NOT NULL UNIQUE,
    institution_id BIGINT NOT NULL REFERENCES institutions (id),
    name           TEXT NOT NULL,
    name_folded    TEXT NOT NULL,
    archived_at    BIGINT,
    created_at     BIGINT NOT NULL,
    updated_at     BIGINT NOT NULL
);
CREATE INDEX templates_institution_id_idx ON templates (institution_id, id);

-- The versions of a template. revision counts the changes of a draft. design_key is the PDF on which the
-- version is built; several versions of a template may have the same. pages, layout, warnings and fonts
-- are JSON. From the publication on, a version never changes, except that it becomes retired. fonts lists
-- the digests of the uploaded fonts that the institution had at that time, and base_key is the design
-- with everything that all certificates of the version share.
CREATE TABLE template_versions (
    id             BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    template_id    BIGINT NOT NULL REFERENCES templates (id),
    institution_id BIGINT NOT NULL,
    number         BIGINT NOT NULL,
    state          TEXT NOT NULL CHECK (state IN ('draft', 'published', 'retired')),
    revision       BIGINT NOT NULL,
    design_key     TEXT NOT NULL,
    pages          TEXT NOT NULL,
    layout         TEXT NOT NULL,
    warnings       TEXT NOT NULL,
    fonts          TEXT NOT NULL DEFAULT '[]',
    base_key       TEXT,
    base_size      BIGINT,
    base_sha256    BYTEA,
    plan           TEXT,
    published_at   BIGINT,
    published_by   TEXT,
    created_at     BIGINT NOT NULL,
    updated_at     BIGINT NOT NULL,
    CONSTRAINT template_versions_number_key UNIQUE (template_id, number)
);
CREATE UNIQUE INDEX template_versions_draft_key ON template_versions (template_id) WHERE state = 'draft';
CREATE UNIQUE INDEX template_versions_published_key ON template_versions (template_id) WHERE state = 'published';
CREATE INDEX template_versions_institution_id_idx ON template_versions (institution_id);
CREATE INDEX template_versions_design_key_idx ON template_versions (design_key);
CREATE INDEX template_versions_base_key_idx ON template_versions (base_key) WHERE base_key IS NOT NULL;

-- The fonts that institutions uploaded. info is JSON. A font that was deleted while versions use it has
-- deleted_at and remains for them.
CREATE TABLE institution_fonts (
    institution_id BIGINT NOT NULL REFERENCES institutions (id),
    sha256         BYTEA NOT NULL,
    file_name      TEXT NOT NULL,
    size           BIGINT NOT NULL,
    info           TEXT NOT NULL,
    font_key       TEXT NOT NULL,
    uploaded_by    TEXT NOT NULL,
    created_at     BIGINT NOT NULL,
    deleted_at     BIGINT,
    PRIMARY KEY (institution_id, sha256)
);
CREATE INDEX institution_fonts_font_key_idx ON institution_fonts (font_key);

-- The pictures that fields of templates show.
CREATE TABLE template_pictures (
    institution_id BIGINT NOT NULL REFERENCES institutions (id),
    sha256         BYTEA NOT NULL,
    picture_key    TEXT NOT NULL,
    size           BIGINT NOT NULL,
    created_at     BIGINT NOT NULL,
    PRIMARY KEY (institution_id, sha256)
);
CREATE INDEX template_pictures_picture_key_idx ON template_pictures (picture_key);

-- An older binary would delete the files of templates.
UPDATE schema_floor SET version = 45, release = '0.2.0' WHERE version < 45;
