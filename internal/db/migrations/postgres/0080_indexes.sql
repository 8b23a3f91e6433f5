-- outside a transaction
-- The indexes of the columns that 0044 to 0055 added. They are not created with the columns, because all
-- writers would wait for the creation. An index that is replaced is dropped after the new index was
-- created, so that servers of the previous release always have one. A vault of the development branch has these indexes
-- already, from the former text of those migrations.

-- One rule for duplicates covers both sources. A certificate that yields has a replacement with the same values.
CREATE UNIQUE INDEX CONCURRENTLY certificates_values_key
    ON certificates (institution_id, email_folded, title, issue_date) WHERE source IN ('vault', 'template') AND NOT yields;
DROP INDEX CONCURRENTLY IF EXISTS certificates_email_folded_title_issue_date_key;
DROP INDEX CONCURRENTLY IF EXISTS certificates_duplicate_key;

-- A certificate has at most one replacement that is made or approved.
CREATE UNIQUE INDEX CONCURRENTLY certificates_replaces_key ON certificates (replaces)
    WHERE replaces IS NOT NULL AND status IN ('pending', 'in_review', 'processing', 'approved');
CREATE INDEX CONCURRENTLY certificates_lineage_idx ON certificates (lineage) WHERE lineage IS NOT NULL;

-- The single certificates from templates, for the numbers on their pages. Others are counted by the template of
-- their batch.
CREATE INDEX CONCURRENTLY certificates_template_version_id_idx ON certificates (institution_id, template_version_id)
    WHERE template_version_id IS NOT NULL AND batch_id IS NULL;
CREATE INDEX CONCURRENTLY batches_template_version_id_idx ON batches (template_version_id) WHERE template_version_id IS NOT NULL;
CREATE INDEX CONCURRENTLY batches_base_key_idx ON batches (base_key) WHERE base_key IS NOT NULL AND NOT expanded;

-- The index has all that the lists by the last valid day need. It is partial, so that certificates that do not
-- expire cost nothing.
CREATE INDEX CONCURRENTLY certificates_expires_on_idx ON certificates (institution_id, source, expires_on, created_at, id, status)
    WHERE expires_on IS NOT NULL;
