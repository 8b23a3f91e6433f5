-- Accounts and their proofs of identity. The columns named hash contain the SHA-256 of a secret.

-- confirmed_at is the time at which the person opened a link that was mailed to the
-- address. An unconfirmed address claims no certificates. language is empty until the
-- person has chosen a language.
ALTER TABLE users ADD COLUMN confirmed_at BIGINT;
ALTER TABLE users ADD COLUMN language TEXT NOT NULL DEFAULT '';

-- One-time secrets: mailed links and challenges that a browser must respond to.
-- email_folded is the address to which a link was mailed: the link is valid only for this
-- address.
CREATE TABLE proofs (
    hash         BYTEA PRIMARY KEY,
    purpose      TEXT NOT NULL,
    user_id      BIGINT REFERENCES users (id) ON DELETE CASCADE,
    email        TEXT NOT NULL,
    email_folded TEXT NOT NULL,
    data         TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL,
    used_at      BIGINT
);
CREATE INDEX proofs_user_id_idx ON proofs (user_id);
CREATE INDEX proofs_expires_at_idx ON proofs (expires_at);

-- pending means that the session waits for a second factor and permits nothing else.
-- confirmed_at is the time at which the person last confirmed their identity.
CREATE TABLE sessions (
    id           BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    hash         BYTEA NOT NULL,
    user_id      BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    pending      BOOLEAN NOT NULL,
    method       TEXT NOT NULL,
    address      TEXT NOT NULL,
    user_agent   TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    seen_at      BIGINT NOT NULL,
    confirmed_at BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL,
    CONSTRAINT sessions_hash_key UNIQUE (hash)
);
CREATE INDEX sessions_user_id_idx ON sessions (user_id);
CREATE INDEX sessions_expires_at_idx ON sessions (expires_at);

-- Browsers in which a person has signed in before.
CREATE TABLE devices (
    hash       BYTEA NOT NULL,
    user_id    BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    created_at BIGINT NOT NULL,
    seen_at    BIGINT NOT NULL,
    PRIMARY KEY (hash, user_id)
);
CREATE INDEX devices_user_id_idx ON devices (user_id);
CREATE INDEX devices_seen_at_idx ON devices (seen_at);

CREATE TABLE passkeys (
    id            BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id       BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    credential_id BYTEA NOT NULL,
    credential    TEXT NOT NULL,
    sign_count    BIGINT NOT NULL,
    name          TEXT NOT NULL,
    created_at    BIGINT NOT NULL,
    used_at       BIGINT,
    CONSTRAINT passkeys_credential_id_key UNIQUE (credential_id)
);
CREATE INDEX passkeys_user_id_idx ON passkeys (user_id);

-- Secrets of one-time passwords (RFC 6238), encrypted. last_step is the time step of the
-- last accepted code, because no code is accepted twice. An authenticator that is not
-- confirmed yet is not required at sign-in.
CREATE TABLE authenticators (
    user_id      BIGINT PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
    secret       BYTEA NOT NULL,
    last_step    BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    confirmed_at BIGINT
);

CREATE TABLE recovery_codes (
    user_id BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    hash    BYTEA NOT NULL,
    used_at BIGINT,
    PRIMARY KEY (user_id, hash)
);

-- Failed attempts, by their target and by the address that they came from.
CREATE TABLE throttles (
    key      BYTEA PRIMARY KEY,
    tries    BIGINT NOT NULL,
    until    BIGINT NOT NULL,
    tried_at BIGINT NOT NULL
);
CREATE INDEX throttles_tried_at_idx ON throttles (tried_at);
