-- Replacements. replaces and replaced_by are the UUIDs of other certificates, with their reference ids.
-- replaces is set at the creation of the new certificate, and replaced_by at its approval. lineage is the
-- UUID of the first certificate of a chain of replacements, in all certificates of the chain but the first.
-- yields is true for a certificate whose replacement has the same address, title and date: the newest
-- certificate of a chain stands for all that have the same.
ALTER TABLE certificates ADD COLUMN replaces TEXT;
ALTER TABLE certificates ADD COLUMN replaces_reference TEXT;
ALTER TABLE certificates ADD COLUMN replaced_by TEXT;
ALTER TABLE certificates ADD COLUMN replaced_by_reference TEXT;
ALTER TABLE certificates ADD COLUMN lineage TEXT;
ALTER TABLE certificates ADD COLUMN yields BOOLEAN NOT NULL DEFAULT false;

CREATE UNIQUE INDEX certificates_values_key
    ON certificates (institution_id, email_folded, title, issue_date) WHERE source IN ('vault', 'template') AND NOT yields;
DROP INDEX certificates_duplicate_key;
-- A certificate has at most one replacement that is made or approved.
CREATE UNIQUE INDEX certificates_replaces_key ON certificates (replaces)
    WHERE replaces IS NOT NULL AND status IN ('pending', 'in_review', 'processing', 'approved');
CREATE INDEX certificates_lineage_idx ON certificates (lineage) WHERE lineage IS NOT NULL;

-- An older binary would approve a replacement without the revocation of the certificate that it replaces.
UPDATE schema_floor SET version = 54, release = '0.2.0' WHERE version < 54;
