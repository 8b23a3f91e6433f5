-- Drafts of bulk uploads belong to the package bulkimport; their tables are named after it.
ALTER TABLE intake_drafts RENAME TO bulk_import_drafts;
ALTER TABLE intake_rows RENAME TO bulk_import_rows;
ALTER TABLE intake_files RENAME TO bulk_import_files;
ALTER TABLE intake_archives RENAME TO bulk_import_archives;
ALTER TABLE intake_batches RENAME TO bulk_import_batches;
ALTER TABLE intake_mappings RENAME TO bulk_import_mappings;

DROP INDEX intake_drafts_institution_id_idx;
DROP INDEX intake_drafts_expires_at_idx;
DROP INDEX intake_drafts_open_idx;
DROP INDEX intake_files_staged_uuid_idx;
DROP INDEX intake_archives_draft_id_idx;
DROP INDEX intake_archives_open_idx;
DROP INDEX intake_archives_blob_key_idx;
CREATE INDEX bulk_import_drafts_institution_id_idx ON bulk_import_drafts (institution_id, id);
CREATE INDEX bulk_import_drafts_expires_at_idx ON bulk_import_drafts (expires_at);
CREATE INDEX bulk_import_drafts_open_idx ON bulk_import_drafts (id) WHERE status = 'submitting';
CREATE INDEX bulk_import_files_staged_uuid_idx ON bulk_import_files (staged_uuid) WHERE staged_uuid IS NOT NULL;
CREATE INDEX bulk_import_archives_draft_id_idx ON bulk_import_archives (draft_id);
CREATE INDEX bulk_import_archives_open_idx ON bulk_import_archives (id) WHERE status = 'unpacking';
CREATE INDEX bulk_import_archives_blob_key_idx ON bulk_import_archives (blob_key);
