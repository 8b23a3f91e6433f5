-- The recipients of approved certificates. Secrets of links are stored as SHA-256.

ALTER TABLE institutions ADD COLUMN mail_language TEXT NOT NULL DEFAULT 'en';

-- The customers of an institution, numbered from 1. The number of a deleted account
-- remains, so that it is never used for another customer.
CREATE TABLE customers (
    institution_id INTEGER NOT NULL REFERENCES institutions (id),
    number         INTEGER NOT NULL,
    user_id        INTEGER REFERENCES users (id),
    created_at     INTEGER NOT NULL,
    PRIMARY KEY (institution_id, number)
) STRICT;
CREATE UNIQUE INDEX customers_user_id_institution_id_key ON customers (user_id, institution_id) WHERE user_id IS NOT NULL;
-- The last number that was assigned. Two transactions that assign a number wait for this
-- row.
CREATE TABLE customer_numbers (
    institution_id INTEGER PRIMARY KEY REFERENCES institutions (id),
    last           INTEGER NOT NULL
) STRICT;

-- The certificates that a recipient claims with a verified address.
CREATE INDEX certificates_unclaimed_idx ON certificates (email_folded) WHERE customer_id IS NULL;
-- The certificates that mail about a batch waits for.
CREATE INDEX certificates_batch_email_idx ON certificates (batch_id, email_folded) WHERE batch_id IS NOT NULL AND status = 'processing';

-- Links that were mailed. Each link opens the certificates of its notices.
CREATE TABLE mail_links (
    id               INTEGER PRIMARY KEY,
    institution_id   INTEGER NOT NULL REFERENCES institutions (id),
    hash             BLOB NOT NULL,
    unsubscribe_hash BLOB NOT NULL,
    email            TEXT NOT NULL,
    email_folded     TEXT NOT NULL,
    language         TEXT NOT NULL,
    created_at       INTEGER NOT NULL,
    CONSTRAINT mail_links_hash_key UNIQUE (hash),
    CONSTRAINT mail_links_unsubscribe_hash_key UNIQUE (unsubscribe_hash)
) STRICT;

-- One mail for each certificate and occasion; the first occasion is the approval.
CREATE TABLE notices (
    id             INTEGER PRIMARY KEY,
    certificate_id INTEGER NOT NULL REFERENCES certificates (id),
    occasion       INTEGER NOT NULL,
    institution_id INTEGER NOT NULL REFERENCES institutions (id),
    reason         TEXT NOT NULL,
    batch_id       TEXT,
    email          TEXT NOT NULL,
    email_folded   TEXT NOT NULL,
    status         TEXT NOT NULL,
    error          TEXT,
    mail_uuid      TEXT,
    link_id        INTEGER REFERENCES mail_links (id),
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    CONSTRAINT notices_certificate_id_occasion_key UNIQUE (certificate_id, occasion)
) STRICT;
CREATE INDEX notices_waiting_idx ON notices (created_at) WHERE status = 'waiting';
CREATE INDEX notices_group_idx ON notices (batch_id, email_folded) WHERE status = 'waiting' AND batch_id IS NOT NULL;
CREATE INDEX notices_mail_uuid_idx ON notices (mail_uuid) WHERE mail_uuid IS NOT NULL;
CREATE INDEX notices_link_id_idx ON notices (link_id) WHERE link_id IS NOT NULL;

-- Addresses that have unsubscribed from the mail of an institution. This applies only until
-- a person has signed up with the address.
CREATE TABLE unsubscribes (
    institution_id INTEGER NOT NULL REFERENCES institutions (id),
    email_folded   TEXT NOT NULL,
    created_at     INTEGER NOT NULL,
    PRIMARY KEY (institution_id, email_folded)
) STRICT;

-- Links that a recipient has shared with other people.
CREATE TABLE shares (
    id             INTEGER PRIMARY KEY,
    uuid           TEXT NOT NULL,
    certificate_id INTEGER NOT NULL REFERENCES certificates (id),
    hash           BLOB NOT NULL,
    label          TEXT NOT NULL,
    listed         INTEGER NOT NULL,
    created_at     INTEGER NOT NULL,
    expires_at     INTEGER,
    revoked_at     INTEGER,
    CONSTRAINT shares_uuid_key UNIQUE (uuid),
    CONSTRAINT shares_hash_key UNIQUE (hash)
) STRICT;
CREATE INDEX shares_certificate_id_idx ON shares (certificate_id, id);

-- Corrections that recipients have requested for their certificates.
CREATE TABLE corrections (
    id             INTEGER PRIMARY KEY,
    uuid           TEXT NOT NULL,
    certificate_id INTEGER NOT NULL REFERENCES certificates (id),
    institution_id INTEGER NOT NULL REFERENCES institutions (id),
    user_id        INTEGER REFERENCES users (id),
    text           TEXT NOT NULL,
    created_at     INTEGER NOT NULL,
    settled_at     INTEGER,
    CONSTRAINT corrections_uuid_key UNIQUE (uuid)
) STRICT;
CREATE INDEX corrections_institution_id_idx ON corrections (institution_id, id);
CREATE INDEX corrections_certificate_id_idx ON corrections (certificate_id);
CREATE INDEX corrections_user_id_idx ON corrections (user_id) WHERE user_id IS NOT NULL;

-- The number of times that a holder, such as a person, performed an action on a day.
CREATE TABLE allowances (
    holder TEXT NOT NULL,
    deed   TEXT NOT NULL,
    day    TEXT NOT NULL,
    n      INTEGER NOT NULL,
    PRIMARY KEY (holder, deed, day)
) STRICT;
CREATE INDEX allowances_day_idx ON allowances (day);
