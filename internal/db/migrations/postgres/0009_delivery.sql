-- The delivery of events: leases, health and keys of endpoints, and attempts and tries of
-- deliveries. Also the table of mail.

-- An event without a certificate is a test.
ALTER TABLE webhook_events ALTER COLUMN certificate_id DROP NOT NULL;

-- headers are additional headers that the institution has set, encrypted like the secret.
-- The previous secret also signs until previous_until; once the new secret is promoted,
-- only the new secret signs X-Webhook-Signature. lease is the fencing number: a node that
-- writes with an older number no longer has the lease of the endpoint. failures is the
-- number of consecutive failures that the circuit breaker counts, openings is the number of
-- consecutive times that the breaker opened, and nothing is sent until held_until. warned
-- is the stage of the last mail that was sent to the owner about these failures, or 0.
ALTER TABLE webhook_endpoints ADD COLUMN headers BYTEA;
ALTER TABLE webhook_endpoints ADD COLUMN previous_secret BYTEA;
ALTER TABLE webhook_endpoints ADD COLUMN previous_until BIGINT;
ALTER TABLE webhook_endpoints ADD COLUMN promoted BOOLEAN NOT NULL DEFAULT false;
ALTER TABLE webhook_endpoints ADD COLUMN lease BIGINT NOT NULL DEFAULT 0;
ALTER TABLE webhook_endpoints ADD COLUMN leased_until BIGINT NOT NULL DEFAULT 0;
ALTER TABLE webhook_endpoints ADD COLUMN served_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE webhook_endpoints ADD COLUMN held_until BIGINT NOT NULL DEFAULT 0;
ALTER TABLE webhook_endpoints ADD COLUMN failures BIGINT NOT NULL DEFAULT 0;
ALTER TABLE webhook_endpoints ADD COLUMN openings BIGINT NOT NULL DEFAULT 0;
ALTER TABLE webhook_endpoints ADD COLUMN failing_since BIGINT;
ALTER TABLE webhook_endpoints ADD COLUMN failed_at BIGINT;
ALTER TABLE webhook_endpoints ADD COLUMN delivered_at BIGINT;
ALTER TABLE webhook_endpoints ADD COLUMN warned BIGINT NOT NULL DEFAULT 0;
ALTER TABLE webhook_endpoints ADD COLUMN stopped_at BIGINT;
ALTER TABLE webhook_endpoints ADD COLUMN stop_reason TEXT;

-- replay marks deliveries that are sent after live deliveries. attempts is the number of
-- all attempts; tries is the number of attempts that the retry schedule counts.
ALTER TABLE webhook_deliveries ADD COLUMN replay BOOLEAN NOT NULL DEFAULT false;
ALTER TABLE webhook_deliveries ADD COLUMN attempts BIGINT NOT NULL DEFAULT 0;
ALTER TABLE webhook_deliveries ADD COLUMN tries BIGINT NOT NULL DEFAULT 0;
ALTER TABLE webhook_deliveries ADD COLUMN finished_at BIGINT;
DROP INDEX webhook_deliveries_due_idx;
CREATE INDEX webhook_deliveries_due_idx ON webhook_deliveries (endpoint_id, replay, due_at, id) WHERE status = 'pending';
CREATE INDEX webhook_deliveries_status_idx ON webhook_deliveries (endpoint_id, status, id);
CREATE INDEX webhook_deliveries_finished_at_idx ON webhook_deliveries (finished_at) WHERE finished_at IS NOT NULL;

CREATE TABLE webhook_attempts (
    delivery_id      BIGINT NOT NULL REFERENCES webhook_deliveries (id),
    number           BIGINT NOT NULL,
    probe            BOOLEAN NOT NULL,
    started_at       BIGINT NOT NULL,
    duration         BIGINT NOT NULL,
    outcome          TEXT NOT NULL,
    error            TEXT,
    url              TEXT NOT NULL,
    request_headers  TEXT NOT NULL,
    status_code      BIGINT,
    response_headers TEXT,
    response_body    TEXT,
    truncated        BOOLEAN NOT NULL,
    PRIMARY KEY (delivery_id, number)
);

CREATE TABLE mails (
    id         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    uuid       TEXT NOT NULL,
    message    TEXT NOT NULL,
    status     TEXT NOT NULL,
    error      TEXT,
    job_id     BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    CONSTRAINT mails_uuid_key UNIQUE (uuid)
);
CREATE INDEX mails_status_idx ON mails (status, updated_at);
