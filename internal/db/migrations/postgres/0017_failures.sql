-- What is failed, by why. A certificate that was revoked as a failed one keeps its
-- code and is not failed any more.
DROP INDEX certificates_failure_code_idx;
CREATE INDEX certificates_failed_code_idx ON certificates (institution_id, failure_code, source, status, created_at, id) WHERE status = 'failed';

-- Mail that did not arrive, as the first page of an institution tells.
CREATE INDEX notices_failed_idx ON notices (institution_id, updated_at) WHERE status = 'failed';
