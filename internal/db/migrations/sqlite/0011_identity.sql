-- Accounts and their proofs of identity. The columns named hash contain the SHA-256 of a secret.

-- confirmed_at is the time at which the person opened a link that was mailed to the
-- address. An unconfirmed address claims no certificates. language is empty until the
-- person has chosen a language.
ALTER TABLE users ADD COLUMN confirmed_at INTEGER;
ALTER TABLE users ADD COLUMN language TEXT NOT NULL DEFAULT '';

-- One-time secrets: mailed links and challenges that a browser must respond to.
-- email_folded is the address to which a link was mailed: the link is valid only for this
-- address.
CREATE TABLE proofs (
    hash         BLOB PRIMARY KEY,
    purpose      TEXT NOT NULL,
    user_id      INTEGER REFERENCES users (id) ON DELETE CASCADE,
    email        TEXT NOT NULL,
    email_folded TEXT NOT NULL,
    data         TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    used_at      INTEGER
) STRICT;
CREATE INDEX proofs_user_id_idx ON proofs (user_id);
CREATE INDEX proofs_expires_at_idx ON proofs (expires_at);

-- pending means that the session waits for a second factor and permits nothing else.
-- confirmed_at is the time at which the person last confirmed their identity.
CREATE TABLE sessions (
    id           INTEGER PRIMARY KEY,
    hash         BLOB NOT NULL,
    user_id      INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    pending      INTEGER NOT NULL,
    method       TEXT NOT NULL,
    address      TEXT NOT NULL,
    user_agent   TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    seen_at      INTEGER NOT NULL,
    confirmed_at INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    CONSTRAINT sessions_hash_key UNIQUE (hash)
) STRICT;
CREATE INDEX sessions_user_id_idx ON sessions (user_id);
CREATE INDEX sessions_expires_at_idx ON sessions (expires_at);

-- Browsers in which a person has signed in before.
CREATE TABLE devices (
    hash       BLOB NOT NULL,
    user_id    INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL,
    PRIMARY KEY (hash, user_id)
) STRICT;
CREATE INDEX devices_user_id_idx ON devices (user_id);
CREATE INDEX devices_seen_at_idx ON devices (seen_at);

CREATE TABLE passkeys (
    id            INTEGER PRIMARY KEY,
    user_id       INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    credential_id BLOB NOT NULL,
    credential    TEXT NOT NULL,
    sign_count    INTEGER NOT NULL,
    name          TEXT NOT NULL,
    created_at    INTEGER NOT NULL,
    used_at       INTEGER,
    CONSTRAINT passkeys_credential_id_key UNIQUE (credential_id)
) STRICT;
CREATE INDEX passkeys_user_id_idx ON passkeys (user_id);

-- Secrets of one-time passwords (RFC 6238), encrypted. last_step is the time step of the
-- last accepted code, because no code is accepted twice. An authenticator that is not
-- confirmed yet is not required at sign-in.
CREATE TABLE authenticators (
    user_id      INTEGER PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
    secret       BLOB NOT NULL,
    last_step    INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    confirmed_at INTEGER
) STRICT;

CREATE TABLE recovery_codes (
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    hash    BLOB NOT NULL,
    used_at INTEGER,
    PRIMARY KEY (user_id, hash)
) STRICT;

-- Failed attempts, by their target and by the address that they came from.
CREATE TABLE throttles (
    key      BLOB PRIMARY KEY,
    tries    INTEGER NOT NULL,
    until    INTEGER NOT NULL,
    tried_at INTEGER NOT NULL
) STRICT;
CREATE INDEX throttles_tried_at_idx ON throttles (tried_at);
