-- The keys that sign verified PDFs, which earlier versions stored as files. holder is the uuid of
-- an institution, or empty for the root of the installation. The highest number of a holder is its
-- current key. A row never changes. private_key is encrypted with age for the identity of the
-- installation; command is the signer program as JSON; one of the two is empty. expires_at is the
-- earliest expiry of a certificate of the chain. Times are in microseconds.
CREATE TABLE signing_keys (
    holder       TEXT NOT NULL,
    number       INTEGER NOT NULL CHECK (number > 0),
    kind         TEXT NOT NULL CHECK (kind IN ('issued', 'brought', 'program')),
    certificates TEXT NOT NULL,
    private_key  TEXT NOT NULL,
    command      TEXT NOT NULL,
    expires_at   INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    PRIMARY KEY (holder, number)
) STRICT;
CREATE INDEX signing_keys_expires_at_idx ON signing_keys (expires_at);

-- The public part of the identity that decrypts the signing keys, at most one row. A process
-- compares it to check that its identity is the one with which the keys were encrypted.
CREATE TABLE signing_identities (
    id        INTEGER PRIMARY KEY CHECK (id = 1),
    recipient TEXT NOT NULL
) STRICT;

-- An earlier version would not find the keys.
UPDATE schema_floor SET version = 36, release = '0.2.0' WHERE version < 36;
