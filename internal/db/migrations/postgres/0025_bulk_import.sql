-- Drafts of bulk uploads belong to the package bulkimport; their tables are named after it.
ALTER TABLE intake_drafts RENAME TO bulk_import_drafts;
ALTER TABLE intake_rows RENAME TO bulk_import_rows;
ALTER TABLE intake_files RENAME TO bulk_import_files;
ALTER TABLE intake_archives RENAME TO bulk_import_archives;
ALTER TABLE intake_batches RENAME TO bulk_import_batches;
ALTER TABLE intake_mappings RENAME TO bulk_import_mappings;

ALTER INDEX intake_drafts_institution_id_idx RENAME TO bulk_import_drafts_institution_id_idx;
ALTER INDEX intake_drafts_expires_at_idx RENAME TO bulk_import_drafts_expires_at_idx;
ALTER INDEX intake_drafts_open_idx RENAME TO bulk_import_drafts_open_idx;
ALTER INDEX intake_files_staged_uuid_idx RENAME TO bulk_import_files_staged_uuid_idx;
ALTER INDEX intake_archives_draft_id_idx RENAME TO bulk_import_archives_draft_id_idx;
ALTER INDEX intake_archives_open_idx RENAME TO bulk_import_archives_open_idx;
ALTER INDEX intake_archives_blob_key_idx RENAME TO bulk_import_archives_blob_key_idx;
ALTER TABLE bulk_import_drafts RENAME CONSTRAINT intake_drafts_uuid_key TO bulk_import_drafts_uuid_key;
ALTER TABLE bulk_import_files RENAME CONSTRAINT intake_files_path_key TO bulk_import_files_path_key;
