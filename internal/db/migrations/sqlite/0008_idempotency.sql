-- Requests that carry an idempotency key: claimed while one is under way, then
-- with the answer to it. id is the digest of institution, token, method, path and
-- key.
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
