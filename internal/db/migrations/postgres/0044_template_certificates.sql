-- Certificates that are made from templates. original_key is the base of the version of the
-- template. Until such a certificate is approved, size is 0, and sha256 and sha256_state are empty.
-- From then on the file tail_key begins with the fields tail, of fields_size bytes, so the original
-- is the base followed by the fields tail.
ALTER TABLE certificates ADD COLUMN template_version_id BIGINT;
ALTER TABLE certificates ADD COLUMN template_values TEXT;
ALTER TABLE certificates ADD COLUMN fields_size BIGINT;

-- One rule for duplicates covers both sources.
CREATE UNIQUE INDEX certificates_duplicate_key
    ON certificates (institution_id, email_folded, title, issue_date) WHERE source IN ('vault', 'template');
DROP INDEX certificates_email_folded_title_issue_date_key;

-- The template of a batch's certificates, and the base of its version, to which the batch refers until
-- all its certificates exist.
ALTER TABLE batches ADD COLUMN template_version_id BIGINT;
ALTER TABLE batches ADD COLUMN base_key TEXT;
CREATE INDEX batches_base_key_idx ON batches (base_key) WHERE base_key IS NOT NULL AND NOT expanded;

-- An older binary would compare the original with the empty digest.
UPDATE schema_floor SET version = 44, release = '0.2.0' WHERE version < 44;
