-- The members of an institution, its invitations, the operators of the installation, and
-- the audit log.
ALTER TABLE members ADD COLUMN manage_webhooks BOOLEAN NOT NULL DEFAULT false;
ALTER TABLE users ADD COLUMN operator BOOLEAN NOT NULL DEFAULT false;

CREATE TABLE invitations (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    uuid            TEXT NOT NULL,
    institution_id  BIGINT NOT NULL REFERENCES institutions (id),
    email           TEXT NOT NULL,
    email_folded    TEXT NOT NULL,
    role            TEXT NOT NULL,
    manage_webhooks BOOLEAN NOT NULL,
    language        TEXT NOT NULL,
    hash            BYTEA NOT NULL,
    inviter_id      BIGINT REFERENCES users (id) ON DELETE SET NULL,
    inviter_name    TEXT NOT NULL,
    created_at      BIGINT NOT NULL,
    sent_at         BIGINT NOT NULL,
    expires_at      BIGINT NOT NULL,
    accepted_at     BIGINT,
    revoked_at      BIGINT,
    CONSTRAINT invitations_uuid_key UNIQUE (uuid),
    CONSTRAINT invitations_hash_key UNIQUE (hash)
);
CREATE UNIQUE INDEX invitations_email_folded_key ON invitations (institution_id, email_folded) WHERE accepted_at IS NULL AND revoked_at IS NULL;
CREATE INDEX invitations_inviter_id_idx ON invitations (inviter_id) WHERE inviter_id IS NOT NULL;

-- An entry that concerns no institution has no institution_id. The actor and the subject
-- are not references: the log remains unchanged when they are deleted.
CREATE TABLE audit_entries (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    institution_id BIGINT REFERENCES institutions (id),
    at             BIGINT NOT NULL,
    actor_type     TEXT NOT NULL,
    actor_id       TEXT NOT NULL,
    actor_name     TEXT NOT NULL,
    actor_folded   TEXT NOT NULL,
    action         TEXT NOT NULL,
    subject_type   TEXT NOT NULL,
    subject_id     TEXT NOT NULL,
    subject_name   TEXT NOT NULL,
    subject_folded TEXT NOT NULL,
    detail         TEXT NOT NULL,
    address        TEXT NOT NULL,
    request_id     TEXT NOT NULL
);
CREATE INDEX audit_entries_at_idx ON audit_entries (institution_id, at, id);
CREATE INDEX audit_entries_subject_id_idx ON audit_entries (subject_id, id);

CREATE FUNCTION audit_entries_stay() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit log is append-only';
END
$$;
CREATE TRIGGER audit_entries_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_entries FOR EACH STATEMENT EXECUTE FUNCTION audit_entries_stay();
