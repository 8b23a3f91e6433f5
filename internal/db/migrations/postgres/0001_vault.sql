-- Times are integer microseconds since 1970, UTC. Dates are text, YYYY-MM-DD. A column
-- *_folded contains the same text in the form in which it is compared.

CREATE TABLE institutions (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    uuid       TEXT NOT NULL,
    slug       TEXT NOT NULL,
    name       TEXT NOT NULL,
    prefix     TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    CONSTRAINT institutions_uuid_key UNIQUE (uuid),
    CONSTRAINT institutions_slug_key UNIQUE (slug),
    CONSTRAINT institutions_prefix_key UNIQUE (prefix)
);

CREATE TABLE users (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    uuid          TEXT NOT NULL,
    email         TEXT NOT NULL,
    email_folded  TEXT NOT NULL,
    name          TEXT NOT NULL,
    password_hash TEXT,
    created_at    BIGINT NOT NULL,
    CONSTRAINT users_uuid_key UNIQUE (uuid),
    CONSTRAINT users_email_folded_key UNIQUE (email_folded)
);

CREATE TABLE members (
    institution_id BIGINT NOT NULL REFERENCES institutions (id),
    user_id        BIGINT NOT NULL REFERENCES users (id),
    role           TEXT NOT NULL,
    created_at     BIGINT NOT NULL,
    PRIMARY KEY (institution_id, user_id)
);
CREATE INDEX members_user_id_idx ON members (user_id);

CREATE TABLE setup_links (
    hash       BYTEA PRIMARY KEY,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);

CREATE TABLE tokens (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    institution_id BIGINT NOT NULL REFERENCES institutions (id),
    name           TEXT NOT NULL,
    hash           BYTEA NOT NULL,
    hint           TEXT NOT NULL,
    permissions    TEXT NOT NULL,
    created_at     BIGINT NOT NULL,
    expires_at     BIGINT,
    last_used_at   BIGINT,
    revoked_at     BIGINT,
    CONSTRAINT tokens_hash_key UNIQUE (hash)
);
CREATE INDEX tokens_institution_id_idx ON tokens (institution_id, id);

CREATE TABLE certificates (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    uuid              TEXT NOT NULL,
    institution_id    BIGINT NOT NULL REFERENCES institutions (id),
    reference_id      TEXT NOT NULL,
    reference_folded  TEXT NOT NULL,
    title             TEXT NOT NULL,
    full_name         TEXT NOT NULL,
    email             TEXT NOT NULL,
    email_folded      TEXT NOT NULL,
    issue_date        TEXT NOT NULL,
    details           TEXT,
    search_text       TEXT NOT NULL,
    source            TEXT NOT NULL,
    trigger_context   TEXT NOT NULL,
    event_context     TEXT NOT NULL,
    status            TEXT NOT NULL,
    failure_code      TEXT,
    failure_message   TEXT,
    batch_id          TEXT,
    customer_id       BIGINT,
    creator_type      TEXT NOT NULL,
    creator_id        BIGINT,
    creator_name      TEXT NOT NULL,
    file_name         TEXT NOT NULL,
    mime_type         TEXT NOT NULL,
    size              BIGINT NOT NULL,
    sha256            BYTEA NOT NULL,
    sha256_state      BYTEA NOT NULL,
    original_key      TEXT NOT NULL,
    tail_key          TEXT,
    whole             BOOLEAN NOT NULL DEFAULT false,
    verified_sha256   BYTEA,
    verified_size     BIGINT,
    image_key         TEXT,
    placement         TEXT,
    placement_page    BIGINT,
    placement_box     TEXT,
    notices           TEXT NOT NULL DEFAULT '[]',
    job_id            BIGINT,
    crashes           BIGINT NOT NULL DEFAULT 0,
    created_at        BIGINT NOT NULL,
    updated_at        BIGINT NOT NULL,
    approved_at       BIGINT,
    revoked_at        BIGINT,
    revocation_reason TEXT,
    revocation_note   TEXT,
    CONSTRAINT certificates_uuid_key UNIQUE (uuid),
    CONSTRAINT certificates_reference_folded_key UNIQUE (reference_folded)
);
CREATE UNIQUE INDEX certificates_email_folded_title_issue_date_key
    ON certificates (institution_id, email_folded, title, issue_date) WHERE source = 'vault';
CREATE INDEX certificates_created_at_idx ON certificates (institution_id, source, created_at, id);
CREATE INDEX certificates_status_idx ON certificates (institution_id, source, status, created_at, id);
CREATE INDEX certificates_original_key_idx ON certificates (original_key);
CREATE INDEX certificates_tail_key_idx ON certificates (tail_key) WHERE tail_key IS NOT NULL;
CREATE INDEX certificates_image_key_idx ON certificates (image_key) WHERE image_key IS NOT NULL;
CREATE INDEX certificates_processing_idx ON certificates (updated_at) WHERE status = 'processing';

CREATE TABLE certificate_checks (
    certificate_id BIGINT NOT NULL REFERENCES certificates (id),
    name           TEXT NOT NULL,
    result         TEXT NOT NULL,
    checked_at     BIGINT NOT NULL,
    PRIMARY KEY (certificate_id, name)
);

CREATE TABLE webhook_endpoints (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    uuid           TEXT NOT NULL,
    institution_id BIGINT NOT NULL REFERENCES institutions (id),
    url            TEXT NOT NULL,
    events         TEXT NOT NULL,
    secret         BYTEA NOT NULL,
    status         TEXT NOT NULL,
    created_at     BIGINT NOT NULL,
    CONSTRAINT webhook_endpoints_uuid_key UNIQUE (uuid)
);
CREATE INDEX webhook_endpoints_institution_id_idx ON webhook_endpoints (institution_id, id);

CREATE TABLE webhook_events (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    uuid           TEXT NOT NULL,
    institution_id BIGINT NOT NULL REFERENCES institutions (id),
    certificate_id BIGINT NOT NULL REFERENCES certificates (id),
    name           TEXT NOT NULL,
    payload        TEXT NOT NULL,
    occurred_at    BIGINT NOT NULL,
    CONSTRAINT webhook_events_uuid_key UNIQUE (uuid)
);
CREATE INDEX webhook_events_certificate_id_idx ON webhook_events (certificate_id, id);

CREATE TABLE webhook_deliveries (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id    BIGINT NOT NULL REFERENCES webhook_events (id),
    endpoint_id BIGINT NOT NULL REFERENCES webhook_endpoints (id),
    body        TEXT NOT NULL,
    status      TEXT NOT NULL,
    due_at      BIGINT NOT NULL,
    created_at  BIGINT NOT NULL
);
CREATE INDEX webhook_deliveries_due_idx ON webhook_deliveries (endpoint_id, due_at, id) WHERE status = 'pending';
CREATE INDEX webhook_deliveries_event_id_idx ON webhook_deliveries (event_id);

CREATE TABLE nodes (
    id           TEXT PRIMARY KEY,
    started_at   BIGINT NOT NULL,
    heartbeat_at BIGINT NOT NULL
);
