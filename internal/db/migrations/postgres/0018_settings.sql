-- What institutions say of themselves, and how long they keep what. An empty text
-- is the vault's own choice, and 0 days is for ever.
ALTER TABLE institutions ADD COLUMN colour TEXT NOT NULL DEFAULT '';
ALTER TABLE institutions ADD COLUMN mail_sender TEXT NOT NULL DEFAULT '';
ALTER TABLE institutions ADD COLUMN mail_reply TEXT NOT NULL DEFAULT '';
ALTER TABLE institutions ADD COLUMN keep_failed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE institutions ADD COLUMN keep_revoked INTEGER NOT NULL DEFAULT 0;
ALTER TABLE institutions ADD COLUMN keep_mail INTEGER NOT NULL DEFAULT 0;
-- Up to which event and notice the texts have ended.
ALTER TABLE institutions ADD COLUMN ended_event BIGINT NOT NULL DEFAULT 0;
ALTER TABLE institutions ADD COLUMN ended_notice BIGINT NOT NULL DEFAULT 0;

-- Their own words in mail to recipients, by language.
CREATE TABLE institution_words (
    institution_id BIGINT NOT NULL REFERENCES institutions (id),
    language       TEXT NOT NULL,
    paragraph      TEXT NOT NULL,
    closing        TEXT NOT NULL,
    PRIMARY KEY (institution_id, language)
);

-- When the files of a revoked certificate ended; its digests stay.
ALTER TABLE certificates ADD COLUMN files_ended_at BIGINT;
CREATE INDEX certificates_kept_idx ON certificates (institution_id, revoked_at) WHERE status = 'revoked' AND files_ended_at IS NULL;
