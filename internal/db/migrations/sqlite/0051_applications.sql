-- Offers are what people can apply for. fields, reviewers and hold_texts are JSON. register_number,
-- register_name and register_birth are the keys of the fields that are compared with the register.
-- Times are in microseconds.
CREATE TABLE offers (
    id              INTEGER PRIMARY KEY,
    uuid            TEXT NOT NULL UNIQUE,
    institution_id  INTEGER NOT NULL REFERENCES institutions (id),
    slug            TEXT NOT NULL,
    name            TEXT NOT NULL,
    description     TEXT NOT NULL,
    criteria        TEXT NOT NULL,
    status          TEXT NOT NULL CHECK (status IN ('draft', 'open', 'closed')),
    template_id     TEXT NOT NULL,
    fields          TEXT NOT NULL,
    four_eyes       INTEGER NOT NULL,
    hold_days       INTEGER NOT NULL,
    retention_days  INTEGER NOT NULL,
    max_files       INTEGER NOT NULL,
    reviewers       TEXT NOT NULL,
    hold_texts      TEXT NOT NULL,
    register_rows   INTEGER NOT NULL DEFAULT 0,
    register_number TEXT NOT NULL,
    register_name   TEXT NOT NULL,
    register_birth  TEXT NOT NULL,
    revision        INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    CONSTRAINT offers_institution_id_slug_key UNIQUE (institution_id, slug)
) STRICT;

-- The rows of the register of an offer, as keyed digests. A row has a number or a name.
CREATE TABLE offer_registers (
    id             INTEGER PRIMARY KEY,
    institution_id INTEGER NOT NULL REFERENCES institutions (id),
    offer_id       INTEGER NOT NULL REFERENCES offers (id),
    number         BLOB,
    name           BLOB,
    birth          BLOB
) STRICT;
CREATE INDEX offer_registers_number_idx ON offer_registers (offer_id, number);
CREATE INDEX offer_registers_name_idx ON offer_registers (offer_id, name);
CREATE INDEX offer_registers_institution_id_idx ON offer_registers (institution_id);

-- Applications that are not submitted. field_values is JSON.
CREATE TABLE application_drafts (
    id             INTEGER PRIMARY KEY,
    uuid           TEXT NOT NULL UNIQUE,
    institution_id INTEGER NOT NULL REFERENCES institutions (id),
    offer_id       INTEGER NOT NULL REFERENCES offers (id),
    user_id        INTEGER NOT NULL REFERENCES users (id),
    full_name      TEXT NOT NULL,
    field_values   TEXT NOT NULL,
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    CONSTRAINT application_drafts_offer_id_user_id_key UNIQUE (offer_id, user_id)
) STRICT;
CREATE INDEX application_drafts_user_id_idx ON application_drafts (user_id);
CREATE INDEX application_drafts_updated_at_idx ON application_drafts (updated_at);
CREATE INDEX application_drafts_institution_id_idx ON application_drafts (institution_id);

-- Submitted applications. status is the status until the decision, and accepted from the approval on:
-- the record in certificates has the status of its certificate. An application whose applicant was
-- erased, or whose retention ended, has no certificate_id, no uuid and no personal data, and remains
-- for the counts. Persons are stored with their type and name, since a token can be deleted.
-- delete_at is the end of the retention of the attachments, and of the application if it has no
-- certificate.
CREATE TABLE applications (
    id              INTEGER PRIMARY KEY,
    certificate_id  INTEGER UNIQUE REFERENCES certificates (id),
    uuid            TEXT UNIQUE,
    institution_id  INTEGER NOT NULL REFERENCES institutions (id),
    offer_id        INTEGER NOT NULL REFERENCES offers (id),
    user_id         INTEGER REFERENCES users (id),
    email_folded    TEXT NOT NULL,
    name_folded     TEXT NOT NULL,
    fields          TEXT NOT NULL,
    field_values    TEXT NOT NULL,
    status          TEXT NOT NULL CHECK (status IN ('pending', 'in_review', 'accepted', 'rejected', 'withdrawn', 'expired')),
    hold_kind       TEXT,
    hold_text       TEXT,
    held_at         INTEGER,
    hold_until      INTEGER,
    answer          TEXT,
    answered_at     INTEGER,
    claimed_by_type TEXT,
    claimed_by_id   INTEGER,
    claimed_by_name TEXT,
    claimed_at      INTEGER,
    decided_by_type TEXT,
    decided_by_id   INTEGER,
    decided_by_name TEXT,
    decided_at      INTEGER,
    reason          TEXT,
    note            TEXT,
    advice          TEXT NOT NULL,
    files_deleted   INTEGER NOT NULL DEFAULT 0,
    delete_at       INTEGER,
    revision        INTEGER NOT NULL,
    created_at      INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX applications_open_key ON applications (offer_id, email_folded) WHERE status IN ('pending', 'in_review');
CREATE INDEX applications_created_at_idx ON applications (institution_id, created_at, id);
CREATE INDEX applications_status_idx ON applications (institution_id, status, created_at, id);
CREATE INDEX applications_offer_id_idx ON applications (offer_id, created_at, id);
CREATE INDEX applications_email_folded_idx ON applications (institution_id, email_folded);
CREATE INDEX applications_user_id_idx ON applications (user_id) WHERE user_id IS NOT NULL;
CREATE INDEX applications_hold_until_idx ON applications (hold_until) WHERE hold_until IS NOT NULL;
CREATE INDEX applications_delete_at_idx ON applications (delete_at) WHERE delete_at IS NOT NULL;

-- The attachments of drafts and applications. field is the key of the field, or answer.
CREATE TABLE application_files (
    id             INTEGER PRIMARY KEY,
    uuid           TEXT NOT NULL UNIQUE,
    institution_id INTEGER NOT NULL REFERENCES institutions (id),
    draft_id       INTEGER REFERENCES application_drafts (id),
    application_id INTEGER REFERENCES applications (id),
    field          TEXT NOT NULL,
    name           TEXT NOT NULL,
    type           TEXT NOT NULL,
    size           INTEGER NOT NULL,
    file_key       TEXT,
    created_at     INTEGER NOT NULL
) STRICT;
CREATE INDEX application_files_draft_id_idx ON application_files (draft_id) WHERE draft_id IS NOT NULL;
CREATE INDEX application_files_application_id_idx ON application_files (application_id) WHERE application_id IS NOT NULL;
CREATE INDEX application_files_file_key_idx ON application_files (file_key) WHERE file_key IS NOT NULL;
CREATE INDEX application_files_institution_id_idx ON application_files (institution_id);

-- The timeline of an application.
CREATE TABLE application_events (
    id             INTEGER PRIMARY KEY,
    institution_id INTEGER NOT NULL REFERENCES institutions (id),
    application_id INTEGER NOT NULL REFERENCES applications (id),
    at             INTEGER NOT NULL,
    action         TEXT NOT NULL,
    by_type        TEXT,
    by_id          INTEGER,
    by_name        TEXT,
    text           TEXT
) STRICT;
CREATE INDEX application_events_application_id_idx ON application_events (application_id, id);
CREATE INDEX application_events_institution_id_idx ON application_events (institution_id);
