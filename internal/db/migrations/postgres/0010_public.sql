-- What an institution lets the public see.
ALTER TABLE institutions ADD COLUMN hide_name BOOLEAN NOT NULL DEFAULT false;
ALTER TABLE institutions ADD COLUMN public_image BOOLEAN NOT NULL DEFAULT false;
ALTER TABLE institutions ADD COLUMN public_download BOOLEAN NOT NULL DEFAULT false;
ALTER TABLE institutions ADD COLUMN contact TEXT NOT NULL DEFAULT '';

-- Apart from the institution, so that reading one does not read its picture.
CREATE TABLE institution_logos (
    institution_id BIGINT PRIMARY KEY REFERENCES institutions (id),
    sha256         BYTEA NOT NULL,
    png            BYTEA NOT NULL
);

-- A file is looked up by what it hashes to, among the certificates that the
-- public may know of.
CREATE INDEX certificates_sha256_idx ON certificates (sha256) WHERE status IN ('approved', 'revoked');
CREATE INDEX certificates_verified_sha256_idx ON certificates (verified_sha256) WHERE verified_sha256 IS NOT NULL;
