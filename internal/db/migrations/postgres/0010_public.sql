-- The settings for the public pages of an institution.
ALTER TABLE institutions ADD COLUMN hide_name BOOLEAN NOT NULL DEFAULT false;
ALTER TABLE institutions ADD COLUMN public_image BOOLEAN NOT NULL DEFAULT false;
ALTER TABLE institutions ADD COLUMN public_download BOOLEAN NOT NULL DEFAULT false;
ALTER TABLE institutions ADD COLUMN contact TEXT NOT NULL DEFAULT '';

-- The logo has its own table, so that reading an institution does not read its image.
CREATE TABLE institution_logos (
    institution_id BIGINT PRIMARY KEY REFERENCES institutions (id),
    sha256         BYTEA NOT NULL,
    png            BYTEA NOT NULL
);

-- A file is looked up by its hash, among the certificates that are public.
CREATE INDEX certificates_sha256_idx ON certificates (sha256) WHERE status IN ('approved', 'revoked');
CREATE INDEX certificates_verified_sha256_idx ON certificates (verified_sha256) WHERE verified_sha256 IS NOT NULL;
