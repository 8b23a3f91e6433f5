-- Failed certificates by the reason. A failed certificate that was revoked retains its
-- code, but is no longer failed.
DROP INDEX certificates_failure_code_idx;
CREATE INDEX certificates_failed_code_idx ON certificates (institution_id, failure_code, source, status, created_at, id) WHERE status = 'failed';

-- Mail that was not delivered, for the first page of an institution.
CREATE INDEX notices_failed_idx ON notices (institution_id, updated_at) WHERE status = 'failed';
