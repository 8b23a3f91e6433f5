-- An operation on many certificates is called a task. A certificate of a task succeeded,
-- was skipped or failed; status is the status because of which it was skipped.
ALTER TABLE certificate_deeds RENAME TO certificate_tasks;
ALTER TABLE certificate_tasks RENAME COLUMN place TO position;
ALTER TABLE certificate_tasks RENAME COLUMN done TO succeeded;
ALTER TABLE certificate_tasks RENAME COLUMN passed_over TO skipped;
ALTER TABLE certificate_deed_results RENAME TO certificate_task_results;
ALTER TABLE certificate_task_results RENAME COLUMN deed_id TO task_id;
ALTER TABLE certificate_task_results RENAME COLUMN result TO outcome;
ALTER TABLE certificate_task_results RENAME COLUMN why TO status;
UPDATE certificate_task_results SET outcome = CASE outcome WHEN 'done' THEN 'succeeded' ELSE 'skipped' END WHERE outcome IN ('done', 'passed_over');

DROP INDEX certificate_deeds_open_idx;
DROP INDEX certificate_deeds_institution_id_idx;
DROP INDEX certificate_deeds_finished_at_idx;
DROP INDEX certificate_deed_results_result_idx;
CREATE INDEX certificate_tasks_open_idx ON certificate_tasks (id) WHERE finished_at IS NULL;
CREATE INDEX certificate_tasks_institution_id_idx ON certificate_tasks (institution_id, id);
CREATE INDEX certificate_tasks_finished_at_idx ON certificate_tasks (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX certificate_task_results_outcome_idx ON certificate_task_results (task_id, outcome, number);
