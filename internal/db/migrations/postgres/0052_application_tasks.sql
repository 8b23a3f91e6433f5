-- A task can decide applications. refusal is the reason as JSON for which an application was skipped, or
-- the empty text.
ALTER TABLE certificate_task_results ADD COLUMN refusal TEXT NOT NULL DEFAULT '';
