-- outside a transaction
-- The index finds the replaced certificates of an institution, and has all that their list needs. It is partial, so
-- that other certificates cost nothing.
CREATE INDEX CONCURRENTLY certificates_replaced_by_idx ON certificates (institution_id, source, created_at, id, status) WHERE replaced_by IS NOT NULL;
