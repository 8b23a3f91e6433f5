-- outside a transaction
-- The index finds the revoked certificates of an institution among those of a status list. It is partial, so that
-- other certificates cost nothing.
CREATE INDEX CONCURRENTLY certificates_revoked_idx ON certificates (institution_id, id) WHERE status = 'revoked';
