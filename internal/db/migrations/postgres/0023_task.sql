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

ALTER INDEX certificate_deeds_open_idx RENAME TO certificate_tasks_open_idx;
ALTER INDEX certificate_deeds_institution_id_idx RENAME TO certificate_tasks_institution_id_idx;
ALTER INDEX certificate_deeds_finished_at_idx RENAME TO certificate_tasks_finished_at_idx;
ALTER INDEX certificate_deed_results_result_idx RENAME TO certificate_task_results_outcome_idx;
ALTER TABLE certificate_tasks RENAME CONSTRAINT certificate_deeds_pkey TO certificate_tasks_pkey;
ALTER TABLE certificate_tasks RENAME CONSTRAINT certificate_deeds_uuid_key TO certificate_tasks_uuid_key;
ALTER TABLE certificate_tasks RENAME CONSTRAINT certificate_deeds_institution_id_fkey TO certificate_tasks_institution_id_fkey;
ALTER TABLE certificate_task_results RENAME CONSTRAINT certificate_deed_results_pkey TO certificate_task_results_pkey;
ALTER TABLE certificate_task_results RENAME CONSTRAINT certificate_deed_results_deed_id_fkey TO certificate_task_results_task_id_fkey;
