-- The account, the TLS certificates and the challenges of ACME, encrypted with the master key.
CREATE TABLE acme_cache (
    name       TEXT PRIMARY KEY,
    sealed     BLOB NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
