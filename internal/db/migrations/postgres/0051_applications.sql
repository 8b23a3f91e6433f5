-- Offers are what people can apply for. fields, reviewers and hold_texts are JSON. register_number,
-- register_name and register_birth are the keys of the fields that are compared with the register.
-- Times are in microseconds.
CREATE TABLE offers (
    id              BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    uuid            TEXT NOT NULL UNIQUE,
    institution_id  BIGINT NOT NULL REFERENCES institutions (id),
    slug            TEXT NOT NULL,
    name            TEXT NOT NULL,
    description     TEXT NOT NULL,
    criteria        TEXT NOT NULL,
    status          TEXT NOT NULL CHECK (status IN ('draft', 'open', 'closed')),
    template_id     TEXT NOT NULL,
    fields          TEXT NOT NULL,
    four_eyes       BOOLEAN NOT NULL,
    hold_days       BIGINT NOT NULL,
    retention_days  BIGINT NOT NULL,
    max_files       BIGINT NOT NULL,
    reviewers       TEXT NOT NULL,
    hold_texts      TEXT NOT NULL,
    register_rows   BIGINT NOT NULL DEFAULT 0,
    register_number TEXT NOT NULL,
    register_name   TEXT NOT NULL,
    register_birth  TEXT NOT NULL,
    revision        BIGINT NOT NULL,
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    CONSTRAINT offers_institution_id_slug_key UNIQUE (institution_id, slug)
);

-- The rows of the register of an offer, as keyed digests. A row has a number or a name.
CREATE TABLE offer_registers (
    id             BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    institution_id BIGINT NOT NULL REFERENCES institutions (id),
    offer_id       BIGINT NOT NULL REFERENCES offers (id),
    number         BYTEA,
    name           BYTEA,
    birth          BYTEA
);
CREATE INDEX offer_registers_number_idx ON offer_registers (offer_id, number);
CREATE INDEX offer_registers_name_idx ON offer_registers (offer_id, name);
CREATE INDEX offer_registers_institution_id_idx ON offer_registers (institution_id);

-- Applications that are not submitted. field_values is JSON.
CREATE TABLE application_drafts (
    id             BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    uuid           TEXT NOT NULL UNIQUE,
    institution_id BIGINT NOT NULL REFERENCES institutions (id),
    offer_id       BIGINT NOT NULL REFERENCES offers (id),
    user_id        BIGINT NOT NULL REFERENCES users (id),
    full_name      TEXT NOT NULL,
    field_values   TEXT NOT NULL,
    created_at     BIGINT NOT NULL,
    updated_at     BIGINT NOT NULL,
    CONSTRAINT application_drafts_offer_id_user_id_key UNIQUE (offer_id, user_id)
);
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
    id              BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    certificate_id  BIGINT UNIQUE REFERENCES certificates (id),
    uuid            TEXT UNIQUE,
    institution_id  BIGINT NOT NULL REFERENCES institutions (id),
    offer_id        BIGINT NOT NULL REFERENCES offers (id),
    user_id         BIGINT REFERENCES users (id),
    email_folded    TEXT NOT NULL,
    name_folded     TEXT NOT NULL,
    fields          TEXT NOT NULL,
    field_values    TEXT NOT NULL,
    status          TEXT NOT NULL CHECK (status IN ('pending', 'in_review', 'accepted', 'rejected', 'withdrawn', 'expired')),
    hold_kind       TEXT,
    hold_text       TEXT,
    held_at         BIGINT,
    hold_until      BIGINT,
    answer          TEXT,
    answered_at     BIGINT,
    claimed_by_type TEXT,
    claimed_by_id   BIGINT,
    claimed_by_name TEXT,
    claimed_at      BIGINT,
    decided_by_type TEXT,
    decided_by_id   BIGINT,
    decided_by_name TEXT,
    decided_at      BIGINT,
    reason          TEXT,
    note            TEXT,
    advice          TEXT NOT NULL,
    files_deleted   BOOLEAN NOT NULL DEFAULT false,
    delete_at       BIGINT,
    revision        BIGINT NOT NULL,
    created_at      BIGINT NOT NULL
);
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
    id             BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    uuid           TEXT NOT NULL UNIQUE,
    institution_id BIGINT NOT NULL REFERENCES institutions (id),
    draft_id       BIGINT REFERENCES application_drafts (id),
    application_id BIGINT REFERENCES applications (id),
    field          TEXT NOT NULL,
    name           TEXT NOT NULL,
    type           TEXT NOT NULL,
    size           BIGINT NOT NULL,
    file_key       TEXT,
    created_at     BIGINT NOT NULL
);
CREATE INDEX application_files_draft_id_idx ON application_files (draft_id) WHERE draft_id IS NOT NULL;
CREATE INDEX application_files_application_id_idx ON application_files (application_id) WHERE application_id IS NOT NULL;
CREATE INDEX application_files_file_key_idx ON application_files (file_key) WHERE file_key IS NOT NULL;
CREATE INDEX application_files_institution_id_idx ON application_files (institution_id);

-- The timeline of an application.
CREATE TABLE application_events (
    id             BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    institution_id BIGINT NOT NULL REFERENCES institutions (id),
    application_id BIGINT NOT NULL REFERENCES applications (id),
    at             BIGINT NOT NULL,
    action         TEXT NOT NULL,
    by_type        TEXT,
    by_id          BIGINT,
    by_name        TEXT,
    text           TEXT
);
CREATE INDEX application_events_application_id_idx ON application_events (application_id, id);
CREATE INDEX application_events_institution_id_idx ON application_events (institution_id);
