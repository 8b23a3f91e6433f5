-- outside a transaction
-- The number of damaged files is a metric, which is read all the time.
CREATE INDEX CONCURRENTLY certificate_checks_failed_idx ON certificate_checks (certificate_id) WHERE result = 'failed';
