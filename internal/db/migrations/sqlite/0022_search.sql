-- The order of dates of issue has one index for all statuses.
DROP INDEX certificates_status_issue_date_idx;
DROP INDEX certificates_issue_date_idx;
CREATE INDEX certificates_issue_date_idx ON certificates (institution_id, source, issue_date, created_at, id, status);

-- The date of issue was in this index for the choice of a plan.
DROP INDEX certificates_generated_at_idx;
CREATE INDEX certificates_generated_at_idx ON certificates (institution_id, source, status, generated_at, created_at, id);
