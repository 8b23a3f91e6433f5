-- Where the stamps of a bulk upload are wanted: of all its rows, and of one row in
-- place of that.
ALTER TABLE intake_drafts ADD COLUMN wanted TEXT;
ALTER TABLE intake_rows ADD COLUMN wanted TEXT;
