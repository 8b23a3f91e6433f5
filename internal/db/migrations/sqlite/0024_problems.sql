-- The problem of a rejected entry or of a rejected part of a bulk upload, as JSON with a
-- code that each interface converts to a message. Older rows have a message in the columns
-- error and problem.
ALTER TABLE batch_entries ADD COLUMN problem TEXT;
ALTER TABLE intake_batches ADD COLUMN reason TEXT;
