-- The keys with which institutions sign credentials. holder is the uuid of an institution. Each
-- generation has one key for each algorithm; the highest number is the current generation. A row
-- never changes. public_key is the PKIX form in DER. private_key is encrypted with age for the
-- identity of the installation, as in signing_keys. Times are in microseconds.
CREATE TABLE credential_keys (
    holder      TEXT NOT NULL,
    number      BIGINT NOT NULL CHECK (number > 0),
    algorithm   TEXT NOT NULL CHECK (algorithm IN ('Ed25519', 'P-256')),
    public_key  BYTEA NOT NULL,
    private_key TEXT NOT NULL,
    created_at  BIGINT NOT NULL,
    PRIMARY KEY (holder, number, algorithm)
);

-- The status lists of an institution. A list takes new entries until it is closed.
CREATE TABLE credential_status_lists (
    uuid           TEXT PRIMARY KEY,
    institution_id BIGINT NOT NULL REFERENCES institutions (id),
    closed         BOOLEAN NOT NULL,
    created_at     BIGINT NOT NULL
);
CREATE INDEX credential_status_lists_institution_id_idx ON credential_status_lists (institution_id) WHERE NOT closed;

-- The entries of status lists. position is random. An entry stays when its credential is deleted, so
-- that a copy of the credential remains revoked and its position is not used again.
CREATE TABLE credential_status_entries (
    list           TEXT NOT NULL REFERENCES credential_status_lists (uuid),
    position       BIGINT NOT NULL,
    certificate_id BIGINT NOT NULL,
    revoked        BOOLEAN NOT NULL,
    PRIMARY KEY (list, position)
);
CREATE INDEX credential_status_entries_certificate_id_idx ON credential_status_entries (certificate_id);
CREATE INDEX credential_status_entries_revoked_idx ON credential_status_entries (list, position) WHERE revoked;

-- The credentials of certificates. vc is the JSON-LD with its Data Integrity proof, jwt and sd_jwt
-- are the other formats. The three are empty until they are signed, and never change afterwards.
CREATE TABLE credentials (
    certificate_id BIGINT PRIMARY KEY REFERENCES certificates (id),
    institution_id BIGINT NOT NULL REFERENCES institutions (id),
    list           TEXT NOT NULL,
    position       BIGINT NOT NULL,
    vc             TEXT NOT NULL,
    jwt            TEXT NOT NULL,
    sd_jwt         TEXT NOT NULL,
    created_at     BIGINT NOT NULL
);

-- A revocation revokes the credentials of the certificate, whichever release of the vault it comes
-- from. So does a correction of the address, because the credential names the former recipient.
CREATE FUNCTION certificates_credential_revoked() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE credential_status_entries SET revoked = TRUE WHERE certificate_id = NEW.id AND NOT revoked;
    IF NEW.email <> OLD.email THEN
        DELETE FROM credentials WHERE certificate_id = NEW.id;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER certificates_credential_revoked AFTER UPDATE OF status ON certificates FOR EACH ROW
    WHEN (NEW.status = 'revoked' AND OLD.status <> 'revoked') EXECUTE FUNCTION certificates_credential_revoked();
CREATE TRIGGER certificates_credential_readdressed AFTER UPDATE OF email ON certificates FOR EACH ROW
    WHEN (NEW.email <> OLD.email) EXECUTE FUNCTION certificates_credential_revoked();

-- The credential of a certificate ends with its files.
CREATE FUNCTION certificates_credential_erased() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM credentials WHERE certificate_id = NEW.id;
    RETURN NULL;
END $$;
CREATE TRIGGER certificates_credential_erased AFTER UPDATE OF files_ended_at ON certificates FOR EACH ROW
    WHEN (NEW.files_ended_at IS NOT NULL) EXECUTE FUNCTION certificates_credential_erased();
