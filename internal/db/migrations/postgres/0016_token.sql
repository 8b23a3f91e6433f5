-- The name of the person who created a token; empty for tokens that were created before
-- this migration.
ALTER TABLE tokens ADD COLUMN creator TEXT NOT NULL DEFAULT '';
