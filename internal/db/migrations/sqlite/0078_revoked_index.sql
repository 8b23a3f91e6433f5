-- The index finds the revoked certificates of an institution among those of a status list. It is partial, so that
-- other certificates cost nothing.
CREATE INDEX certificates_revoked_idx ON certificates (institution_id, id) WHERE status = 'revoked';
