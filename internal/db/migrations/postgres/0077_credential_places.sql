-- The number of corrections of the address of a certificate. Each revokes the credential, and the next
-- credential has a place in another status list. The place depends on the certificate and this number only,
-- so credential_status_lists and credential_status_entries are for credentials of earlier releases.
CREATE TABLE credential_versions (
    institution_id BIGINT NOT NULL REFERENCES institutions (id),
    certificate_id BIGINT NOT NULL,
    version        BIGINT NOT NULL CHECK (version > 0),
    PRIMARY KEY (institution_id, certificate_id)
);

CREATE OR REPLACE FUNCTION certificates_credential_revoked() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE credential_status_entries SET revoked = TRUE WHERE certificate_id = NEW.id AND NOT revoked;
    IF NEW.email <> OLD.email THEN
        DELETE FROM credentials WHERE certificate_id = NEW.id;
        INSERT INTO credential_versions (institution_id, certificate_id, version) VALUES (NEW.institution_id, NEW.id, 1)
        ON CONFLICT (institution_id, certificate_id) DO UPDATE SET version = credential_versions.version + 1;
    END IF;
    RETURN NULL;
END $$;

-- An achievement may also belong to a template: certificates that are created from it have the achievement,
-- whatever their title is.
ALTER TABLE achievements ADD COLUMN template_id BIGINT REFERENCES templates (id) ON DELETE SET NULL;
CREATE UNIQUE INDEX achievements_template_id_key ON achievements (template_id) WHERE template_id IS NOT NULL;
