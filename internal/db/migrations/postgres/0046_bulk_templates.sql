-- The version of a template from which the certificates of a bulk upload are made, or NULL if the rows
-- have files.
ALTER TABLE bulk_import_drafts ADD COLUMN template_version_id BIGINT;
