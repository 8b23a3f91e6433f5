-- When the recipients of an upload get their mail, if not at the approval. A plan belongs to a certificate
-- or to a batch. send_at is in microseconds, and null if no mail is sent. A plan is deleted some time after
-- send_at: the mail about later approvals is then sent at the approval.
CREATE TABLE notice_plans (
    id             BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    uuid           TEXT NOT NULL UNIQUE,
    institution_id BIGINT NOT NULL REFERENCES institutions (id),
    certificate_id BIGINT UNIQUE REFERENCES certificates (id),
    batch_id       TEXT UNIQUE,
    send_at        BIGINT,
    created_at     BIGINT NOT NULL,
    updated_at     BIGINT NOT NULL
);
CREATE INDEX notice_plans_send_at_idx ON notice_plans (send_at) WHERE send_at IS NOT NULL;
CREATE INDEX notice_plans_institution_id_idx ON notice_plans (institution_id, send_at, id);

-- The approved certificates whose first notice waits for a plan.
CREATE TABLE planned_notices (
    certificate_id BIGINT PRIMARY KEY REFERENCES certificates (id),
    plan_id        BIGINT NOT NULL REFERENCES notice_plans (id)
);
CREATE INDEX planned_notices_plan_id_idx ON planned_notices (plan_id, certificate_id);

-- notify: the recipients of the certificates that a task revokes get a mail. Tasks from before this column send none.
ALTER TABLE certificate_tasks ADD COLUMN notify BOOLEAN NOT NULL DEFAULT false;
-- The plan of the batches of a draft: '', 'never', or a time as in RFC 3339.
ALTER TABLE bulk_import_drafts ADD COLUMN notify TEXT NOT NULL DEFAULT '';

-- An older binary would send mail at the approval instead of the chosen time.
UPDATE schema_floor SET version = 58, release = '0.2.0' WHERE version < 58;
