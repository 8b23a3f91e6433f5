-- How often a certificate was verified on a day (UTC, counted from 1970). Days without a verification
-- have no row.
CREATE TABLE verification_counts (
    certificate_id BIGINT NOT NULL REFERENCES certificates (id),
    day            BIGINT NOT NULL,
    institution_id BIGINT NOT NULL REFERENCES institutions (id),
    n              BIGINT NOT NULL,
    PRIMARY KEY (certificate_id, day)
);
CREATE INDEX verification_counts_institution_id_idx ON verification_counts (institution_id, day, certificate_id, n);
