-- outside a transaction
-- The institutions with certificates of one original are found one after another, however many
-- certificates each of them has.
CREATE INDEX CONCURRENTLY certificates_sha256_issuer_idx ON certificates (sha256, institution_id) WHERE status IN ('approved', 'revoked');
DROP INDEX CONCURRENTLY IF EXISTS certificates_sha256_idx;
ALTER INDEX certificates_sha256_issuer_idx RENAME TO certificates_sha256_idx;
