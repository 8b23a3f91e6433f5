-- The institutions with certificates of one original are found one after another, however many
-- certificates each of them has.
DROP INDEX certificates_sha256_idx;
CREATE INDEX certificates_sha256_idx ON certificates (sha256, institution_id) WHERE status IN ('approved', 'revoked');
