-- The colour and the mail settings of institutions, and retention periods. An empty text
-- means the default of the vault, and 0 days means no limit.
ALTER TABLE institutions ADD COLUMN colour TEXT NOT NULL DEFAULT '';
ALTER TABLE institutions ADD COLUMN mail_sender TEXT NOT NULL DEFAULT '';
ALTER TABLE institutions ADD COLUMN mail_reply TEXT NOT NULL DEFAULT '';
ALTER TABLE institutions ADD COLUMN keep_failed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE institutions ADD COLUMN keep_revoked INTEGER NOT NULL DEFAULT 0;
ALTER TABLE institutions ADD COLUMN keep_mail INTEGER NOT NULL DEFAULT 0;
-- The last event and the last notice whose texts were removed.
ALTER TABLE institutions ADD COLUMN ended_event INTEGER NOT NULL DEFAULT 0;
ALTER TABLE institutions ADD COLUMN ended_notice INTEGER NOT NULL DEFAULT 0;

-- The institution's own texts in mail to recipients, by language.
CREATE TABLE institution_words (
    institution_id INTEGER NOT NULL REFERENCES institutions (id),
    language       TEXT NOT NULL,
    paragraph      TEXT NOT NULL,
    closing        TEXT NOT NULL,
    PRIMARY KEY (institution_id, language)
) STRICT;

-- The time at which the files of a revoked certificate were removed; the digests remain.
ALTER TABLE certificates ADD COLUMN files_ended_at INTEGER;
CREATE INDEX certificates_kept_idx ON certificates (institution_id, revoked_at) WHERE status = 'revoked' AND files_ended_at IS NULL;
