-- The placement of the stamp that an institution has chosen, and the files that it accepts.
ALTER TABLE institutions ADD COLUMN placement TEXT NOT NULL DEFAULT 'auto';
ALTER TABLE institutions ADD COLUMN placement_page BIGINT NOT NULL DEFAULT 1;
ALTER TABLE institutions ADD COLUMN placement_box TEXT;
ALTER TABLE institutions ADD COLUMN refuse_active BOOLEAN NOT NULL DEFAULT false;

-- The place of the stamp on the last certificate of each page size.
CREATE TABLE stamp_layouts (
    institution_id BIGINT NOT NULL REFERENCES institutions (id),
    width          BIGINT NOT NULL,
    height         BIGINT NOT NULL,
    box            TEXT NOT NULL,
    updated_at     BIGINT NOT NULL,
    PRIMARY KEY (institution_id, width, height)
);
CREATE INDEX stamp_layouts_updated_at_idx ON stamp_layouts (institution_id, updated_at);
