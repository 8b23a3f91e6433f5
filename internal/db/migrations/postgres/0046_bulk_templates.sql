-- The version of a template from which the certificates of a bulk upload are made, or NULL if the rows
-- have files.
ALTER TABLE bulk_import_drafts ADD COLUMN template_version_id BIGINT;

-- The single certificates from templates, for the numbers on their pages.
CREATE INDEX certificates_template_version_id_idx ON certificates (institution_id, template_version_id)
    WHERE template_version_id IS NOT NULL AND batch_id IS NULL;
