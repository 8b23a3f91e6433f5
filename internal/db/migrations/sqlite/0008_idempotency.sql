-- Requests that have an idempotency key. The row is claimed while the request is in
-- progress; afterwards it has the response. id is the digest of institution, token, method,
-- path and key.
CREATE TABLE idempotency_keys (
    id             BLOB PRIMARY KEY,
    institution_id INTEGER NOT NULL REFERENCES institutions (id),
    node_id        TEXT NOT NULL,
    claim          BLOB NOT NULL,
    fingerprint    BLOB,
    status         INTEGER,
    body           BLOB,
    expires_at     INTEGER NOT NULL
) STRICT;
CREATE INDEX idempotency_keys_expires_at_idx ON idempotency_keys (expires_at);
