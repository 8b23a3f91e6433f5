-- Who somebody is. Secrets that a person holds are kept as SHA-256.

-- confirmed_at is when the address was proved by a link that was mailed to it; an
-- unproved one claims nothing. language is empty until its person chose one.
ALTER TABLE users ADD COLUMN confirmed_at BIGINT;
ALTER TABLE users ADD COLUMN language TEXT NOT NULL DEFAULT '';

-- One-time secrets: mailed links, and what a browser answers a challenge with.
-- email_folded is the address that a link was mailed to: it is good for no other.
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

-- pending waits for a second factor and opens nothing but that. confirmed_at is
-- when its person last showed who they are.
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

-- Browsers in which somebody signed in before.
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

-- Secrets of one-time passwords (RFC 6238), encrypted. last_step is the time step
-- of the last code that was taken: no code counts twice. One that was not
-- confirmed yet asks nobody for a code.
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

-- What was tried in vain, by what it was tried on and from where.
CREATE TABLE throttles (
    key      BYTEA PRIMARY KEY,
    tries    BIGINT NOT NULL,
    until    BIGINT NOT NULL,
    tried_at BIGINT NOT NULL
);
CREATE INDEX throttles_tried_at_idx ON throttles (tried_at);
