-- The signatories of the versions of templates: the members who must approve each certificate of the
-- version, with their designations on it. From the publication on they change only if a member
-- who left is replaced.
CREATE TABLE template_signatories (
    version_id      INTEGER NOT NULL REFERENCES template_versions (id),
    institution_id  INTEGER NOT NULL,
    signatory_index INTEGER NOT NULL CHECK (signatory_index BETWEEN 1 AND 8),
    user_id         INTEGER NOT NULL,
    designation     TEXT NOT NULL,
    PRIMARY KEY (version_id, signatory_index),
    CONSTRAINT template_signatories_user_id_key UNIQUE (version_id, user_id)
) STRICT;
CREATE INDEX template_signatories_institution_id_idx ON template_signatories (institution_id, user_id);
-- in_order: each signatory is asked after the approval of the one before.
ALTER TABLE template_versions ADD COLUMN in_order INTEGER NOT NULL DEFAULT 0;

-- The pictures of the signatures of members. picture is a small PNG, black with transparency. A picture
-- that was replaced or deleted has deleted_at, and remains until no certificate needs it for its drawing.
CREATE TABLE signature_pictures (
    institution_id INTEGER NOT NULL REFERENCES institutions (id),
    user_id        INTEGER NOT NULL,
    sha256         BLOB NOT NULL,
    picture        BLOB NOT NULL,
    created_at     INTEGER NOT NULL,
    deleted_at     INTEGER,
    PRIMARY KEY (institution_id, user_id, sha256)
) STRICT;

-- The signatures of certificates. asked_at is the time from which the signatory can approve or decline,
-- and null if the signatory is not asked now. digest binds an approval to the version of the template and
-- to the values. display_name and picture_sha256 are null until the approval. batch_id is that of the
-- certificate.
CREATE TABLE certificate_signatures (
    id              INTEGER PRIMARY KEY,
    certificate_id  INTEGER NOT NULL REFERENCES certificates (id),
    institution_id  INTEGER NOT NULL,
    batch_id        TEXT,
    signatory_index INTEGER NOT NULL,
    user_id         INTEGER NOT NULL,
    designation     TEXT NOT NULL,
    in_order        INTEGER NOT NULL,
    digest          BLOB NOT NULL,
    status          TEXT NOT NULL CHECK (status IN ('pending', 'approved', 'declined')),
    asked_at        INTEGER,
    display_name    TEXT,
    picture_sha256  BLOB,
    approved_at     INTEGER,
    CONSTRAINT certificate_signatures_index_key UNIQUE (certificate_id, signatory_index)
) STRICT;
CREATE INDEX certificate_signatures_asked_idx ON certificate_signatures (institution_id, user_id, batch_id, certificate_id) WHERE asked_at IS NOT NULL;
CREATE INDEX certificate_signatures_open_idx ON certificate_signatures (institution_id, user_id) WHERE status <> 'approved';

-- The last mail to a signatory about certificates that wait.
CREATE TABLE signature_mails (
    institution_id INTEGER NOT NULL REFERENCES institutions (id),
    user_id        INTEGER NOT NULL,
    sent_at        INTEGER NOT NULL,
    PRIMARY KEY (institution_id, user_id)
) STRICT;

-- An older binary would draw certificates without the signatures, and could not delete their records.
UPDATE schema_floor SET version = 50, release = '0.2.0' WHERE version < 50;
