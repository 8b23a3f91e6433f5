-- Offers of credentials to wallets (OpenID4VCI 1.0). hash is the SHA-256 of the secret in the offer.
-- code is a keyed digest of the code that is mailed, and tries the number of codes that were entered.
-- email is the address to which the code was mailed. token is the SHA-256 of the access token, and holder the
-- thumbprint of the key to which the credential was issued; both are null before. Times are in
-- microseconds.
CREATE TABLE credential_offers (
    hash             BLOB PRIMARY KEY,
    institution_id   INTEGER NOT NULL REFERENCES institutions (id),
    certificate_id   INTEGER NOT NULL REFERENCES certificates (id),
    email            TEXT NOT NULL,
    code             BLOB NOT NULL,
    tries            INTEGER NOT NULL,
    created_at       INTEGER NOT NULL,
    expires_at       INTEGER NOT NULL,
    token            BLOB,
    token_expires_at INTEGER,
    holder           TEXT,
    CONSTRAINT credential_offers_token_key UNIQUE (token)
) STRICT;
CREATE INDEX credential_offers_certificate_id_idx ON credential_offers (certificate_id, created_at);
CREATE INDEX credential_offers_expires_at_idx ON credential_offers (expires_at);
