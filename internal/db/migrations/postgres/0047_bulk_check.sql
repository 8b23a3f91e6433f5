-- accepted has the doubts about a row that a person found to be unfounded, each with what the person
-- saw. placed reports whether a person chose the position for all rows, which may be the default.

ALTER TABLE bulk_import_rows ADD COLUMN accepted TEXT;
ALTER TABLE bulk_import_drafts ADD COLUMN placed BOOLEAN NOT NULL DEFAULT false;
