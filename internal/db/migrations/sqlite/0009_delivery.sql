-- The delivery of events: leases, health and keys of endpoints, and attempts and tries of
-- deliveries. Also the table of mail.

-- headers are additional headers that the institution has set, encrypted like the secret.
-- The previous secret also signs until previous_until; once the new secret is promoted,
-- only the new secret signs X-Webhook-Signature. lease is the fencing number: a node that
-- writes with an older number no longer has the lease of the endpoint. failures is the
-- number of consecutive failures that the circuit breaker counts, openings is the number of
-- consecutive times that the breaker opened, and nothing is sent until held_until. warned
-- is the stage of the last mail that was sent to the owner about these failures, or 0.
ALTER TABLE webhook_endpoints ADD COLUMN headers BLOB;
ALTER TABLE webhook_endpoints ADD COLUMN previous_secret BLOB;
ALTER TABLE webhook_endpoints ADD COLUMN previous_until INTEGER;
ALTER TABLE webhook_endpoints ADD COLUMN promoted INTEGER NOT NULL DEFAULT 0;
ALTER TABLE webhook_endpoints ADD COLUMN lease INTEGER NOT NULL DEFAULT 0;
ALTER TABLE webhook_endpoints ADD COLUMN leased_until INTEGER NOT NULL DEFAULT 0;
ALTER TABLE webhook_endpoints ADD COLUMN served_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE webhook_endpoints ADD COLUMN held_until INTEGER NOT NULL DEFAULT 0;
ALTER TABLE webhook_endpoints ADD COLUMN failures INTEGER NOT NULL DEFAULT 0;
ALTER TABLE webhook_endpoints ADD COLUMN openings INTEGER NOT NULL DEFAULT 0;
ALTER TABLE webhook_endpoints ADD COLUMN failing_since INTEGER;
ALTER TABLE webhook_endpoints ADD COLUMN failed_at INTEGER;
ALTER TABLE webhook_endpoints ADD COLUMN delivered_at INTEGER;
ALTER TABLE webhook_endpoints ADD COLUMN warned INTEGER NOT NULL DEFAULT 0;
ALTER TABLE webhook_endpoints ADD COLUMN stopped_at INTEGER;
ALTER TABLE webhook_endpoints ADD COLUMN stop_reason TEXT;

-- An event without a certificate is a test. SQLite cannot remove NOT NULL, so the table of
-- events is created again, and the table of deliveries too, because it refers to events.
CREATE TABLE webhook_events_new (
    id             INTEGER PRIMARY KEY,
    uuid           TEXT NOT NULL,
    institution_id INTEGER NOT NULL REFERENCES institutions (id),
    certificate_id INTEGER REFERENCES certificates (id),
    name           TEXT NOT NULL,
    payload        TEXT NOT NULL,
    occurred_at    INTEGER NOT NULL,
    CONSTRAINT webhook_events_uuid_key UNIQUE (uuid)
) STRICT;
INSERT INTO webhook_events_new (id, uuid, institution_id, certificate_id, name, payload, occurred_at)
    SELECT id, uuid, institution_id, certificate_id, name, payload, occurred_at FROM webhook_events;

-- replay marks deliveries that are sent after live deliveries. attempts is the number of
-- all attempts; tries is the number of attempts that the retry schedule counts.
CREATE TABLE webhook_deliveries_new (
    id          INTEGER PRIMARY KEY,
    event_id    INTEGER NOT NULL REFERENCES webhook_events_new (id),
    endpoint_id INTEGER NOT NULL REFERENCES webhook_endpoints (id),
    body        TEXT NOT NULL,
    status      TEXT NOT NULL,
    replay      INTEGER NOT NULL DEFAULT 0,
    attempts    INTEGER NOT NULL DEFAULT 0,
    tries       INTEGER NOT NULL DEFAULT 0,
    due_at      INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    finished_at INTEGER
) STRICT;
INSERT INTO webhook_deliveries_new (id, event_id, endpoint_id, body, status, due_at, created_at)
    SELECT id, event_id, endpoint_id, body, status, due_at, created_at FROM webhook_deliveries;

DROP TABLE webhook_deliveries;
DROP TABLE webhook_events;
ALTER TABLE webhook_events_new RENAME TO webhook_events;
ALTER TABLE webhook_deliveries_new RENAME TO webhook_deliveries;
CREATE INDEX webhook_events_certificate_id_idx ON webhook_events (certificate_id, id);
CREATE INDEX webhook_deliveries_event_id_idx ON webhook_deliveries (event_id);
CREATE INDEX webhook_deliveries_due_idx ON webhook_deliveries (endpoint_id, replay, due_at, id) WHERE status = 'pending';
CREATE INDEX webhook_deliveries_status_idx ON webhook_deliveries (endpoint_id, status, id);
CREATE INDEX webhook_deliveries_finished_at_idx ON webhook_deliveries (finished_at) WHERE finished_at IS NOT NULL;

CREATE TABLE webhook_attempts (
    delivery_id      INTEGER NOT NULL REFERENCES webhook_deliveries (id),
    number           INTEGER NOT NULL,
    probe            INTEGER NOT NULL,
    started_at       INTEGER NOT NULL,
    duration         INTEGER NOT NULL,
    outcome          TEXT NOT NULL,
    error            TEXT,
    url              TEXT NOT NULL,
    request_headers  TEXT NOT NULL,
    status_code      INTEGER,
    response_headers TEXT,
    response_body    TEXT,
    truncated        INTEGER NOT NULL,
    PRIMARY KEY (delivery_id, number)
) STRICT;

CREATE TABLE mails (
    id         INTEGER PRIMARY KEY,
    uuid       TEXT NOT NULL,
    message    TEXT NOT NULL,
    status     TEXT NOT NULL,
    error      TEXT,
    job_id     INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    CONSTRAINT mails_uuid_key UNIQUE (uuid)
) STRICT;
CREATE INDEX mails_status_idx ON mails (status, updated_at);
