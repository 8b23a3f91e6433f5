-- Replacements. replaces and replaced_by are the UUIDs of other certificates, with their reference ids.
-- replaces is set at the creation of the new certificate, and replaced_by at its approval. lineage is the
-- UUID of the first certificate of a chain of replacements, in all certificates of the chain but the first.
-- yields is true for a certificate whose replacement has the same address, title and date: the newest
-- certificate of a chain stands for all that have the same. 0080 creates the indexes.
ALTER TABLE certificates ADD COLUMN replaces TEXT;
ALTER TABLE certificates ADD COLUMN replaces_reference TEXT;
ALTER TABLE certificates ADD COLUMN replaced_by TEXT;
ALTER TABLE certificates ADD COLUMN replaced_by_reference TEXT;
ALTER TABLE certificates ADD COLUMN lineage TEXT;
ALTER TABLE certificates ADD COLUMN yields BOOLEAN NOT NULL DEFAULT false;

-- An older binary would approve a replacement without the revocation of the certificate that it replaces.
UPDATE schema_floor SET version = 54, release = '0.2.0' WHERE version < 54;
