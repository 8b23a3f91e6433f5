-- The number of corrections of the address of a certificate. Each revokes the credential, and the next
-- credential has a place in another status list. The place depends on the certificate and this number only,
-- so credential_status_lists and credential_status_entries are for credentials of earlier releases.
CREATE TABLE credential_versions (
    institution_id INTEGER NOT NULL REFERENCES institutions (id),
    certificate_id INTEGER NOT NULL,
    version        INTEGER NOT NULL CHECK (version > 0),
    PRIMARY KEY (institution_id, certificate_id)
) STRICT, WITHOUT ROWID;

DROP TRIGGER certificates_credential_readdressed;
CREATE TRIGGER certificates_credential_readdressed AFTER UPDATE OF email ON certificates
WHEN new.email <> old.email BEGIN
    UPDATE credential_status_entries SET revoked = TRUE WHERE certificate_id = new.id AND NOT revoked;
    DELETE FROM credentials WHERE certificate_id = new.id;
    INSERT INTO credential_versions (institution_id, certificate_id, version) VALUES (new.institution_id, new.id, 1)
    ON CONFLICT (institution_id, certificate_id) DO UPDATE SET version = version + 1;
END;

-- An achievement may also belong to a template: certificates that are created from it have the achievement,
-- whatever their title is.
ALTER TABLE achievements ADD COLUMN template_id INTEGER REFERENCES templates (id) ON DELETE SET NULL;
CREATE UNIQUE INDEX achievements_template_id_key ON achievements (template_id) WHERE template_id IS NOT NULL;
