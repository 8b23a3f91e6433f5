-- Certificates that are made from templates. original_key is the base of the version of the
-- template. Until such a certificate is approved, size is 0, and sha256 and sha256_state are empty.
-- From then on the file tail_key begins with the fields tail, of fields_size bytes, so the original
-- is the base followed by the fields tail.
ALTER TABLE certificates ADD COLUMN template_version_id BIGINT;
ALTER TABLE certificates ADD COLUMN template_values TEXT;
ALTER TABLE certificates ADD COLUMN fields_size BIGINT;

-- The template of a batch's certificates, and the base of its version, to which the batch refers until
-- all its certificates exist. 0080 creates the indexes of these columns.
ALTER TABLE batches ADD COLUMN template_version_id BIGINT;
ALTER TABLE batches ADD COLUMN base_key TEXT;

-- An older binary would compare the original with the empty digest.
UPDATE schema_floor SET version = 44, release = '0.2.0' WHERE version < 44;
