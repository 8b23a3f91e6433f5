-- Requests that have an idempotency key. The row is claimed while the request is in
-- progress; afterwards it has the response. id is the digest of institution, token, method,
-- path and key.
CREATE TABLE idempotency_keys (
    id             BYTEA PRIMARY KEY,
    institution_id BIGINT NOT NULL REFERENCES institutions (id),
    node_id        TEXT NOT NULL,
    claim          BYTEA NOT NULL,
    fingerprint    BYTEA,
    status         BIGINT,
    body           BYTEA,
    expires_at     BIGINT NOT NULL
);
CREATE INDEX idempotency_keys_expires_at_idx ON idempotency_keys (expires_at);
