-- The placement of the stamps of a bulk upload: for all rows, and for a single row instead.
ALTER TABLE intake_drafts ADD COLUMN wanted TEXT;
ALTER TABLE intake_rows ADD COLUMN wanted TEXT;
