-- The problem of a rejected entry, and of a part of a bulk upload that was refused, in
-- JSON: a code, which each surface words. Older rows have words in the columns error
-- and problem.
ALTER TABLE batch_entries ADD COLUMN problem TEXT;
ALTER TABLE intake_batches ADD COLUMN reason TEXT;
