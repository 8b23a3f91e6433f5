-- The members of an institution, its invitations, the operators of the installation, and
-- the audit log.
ALTER TABLE members ADD COLUMN manage_webhooks INTEGER NOT NULL DEFAULT 0;
ALTER TABLE users ADD COLUMN operator INTEGER NOT NULL DEFAULT 0;

CREATE TABLE invitations (
    id              INTEGER PRIMARY KEY,
    uuid            TEXT NOT NULL,
    institution_id  INTEGER NOT NULL REFERENCES institutions (id),
    email           TEXT NOT NULL,
    email_folded    TEXT NOT NULL,
    role            TEXT NOT NULL,
    manage_webhooks INTEGER NOT NULL,
    language        TEXT NOT NULL,
    hash            BLOB NOT NULL,
    inviter_id      INTEGER REFERENCES users (id) ON DELETE SET NULL,
    inviter_name    TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    sent_at         INTEGER NOT NULL,
    expires_at      INTEGER NOT NULL,
    accepted_at     INTEGER,
    revoked_at      INTEGER,
    CONSTRAINT invitations_uuid_key UNIQUE (uuid),
    CONSTRAINT invitations_hash_key UNIQUE (hash)
) STRICT;
CREATE UNIQUE INDEX invitations_email_folded_key ON invitations (institution_id, email_folded) WHERE accepted_at IS NULL AND revoked_at IS NULL;
CREATE INDEX invitations_inviter_id_idx ON invitations (inviter_id) WHERE inviter_id IS NOT NULL;

-- An entry that concerns no institution has no institution_id. The actor and the subject
-- are not references: the log remains unchanged when they are deleted.
CREATE TABLE audit_entries (
    id             INTEGER PRIMARY KEY,
    institution_id INTEGER REFERENCES institutions (id),
    at             INTEGER NOT NULL,
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
) STRICT;
CREATE INDEX audit_entries_at_idx ON audit_entries (institution_id, at, id);
CREATE INDEX audit_entries_subject_id_idx ON audit_entries (subject_id, id);

CREATE TRIGGER audit_entries_update BEFORE UPDATE ON audit_entries
BEGIN
    SELECT RAISE(ABORT, 'the audit log is append-only');
END;
CREATE TRIGGER audit_entries_delete BEFORE DELETE ON audit_entries
BEGIN
    SELECT RAISE(ABORT, 'the audit log is append-only');
END;
-- INSERT OR REPLACE deletes rows without firing the trigger above.
CREATE TRIGGER audit_entries_replace BEFORE INSERT ON audit_entries WHEN EXISTS (SELECT 1 FROM audit_entries WHERE id = NEW.id)
BEGIN
    SELECT RAISE(ABORT, 'the audit log is append-only');
END;
