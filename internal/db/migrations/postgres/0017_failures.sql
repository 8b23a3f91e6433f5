-- What is failed, by why. A certificate that was revoked as a failed one keeps its
-- code and is not failed any more.
DROP INDEX certificates_failure_code_idx;
CREATE INDEX certificates_failed_code_idx ON certificates (institution_id, failure_code) WHERE status = 'failed';
