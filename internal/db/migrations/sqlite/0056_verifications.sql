-- How often a certificate was verified on a day (UTC, counted from 1970). Days without a verification
-- have no row.
CREATE TABLE verification_counts (
    certificate_id INTEGER NOT NULL REFERENCES certificates (id),
    day            INTEGER NOT NULL,
    institution_id INTEGER NOT NULL REFERENCES institutions (id),
    n              INTEGER NOT NULL,
    PRIMARY KEY (certificate_id, day)
) STRICT, WITHOUT ROWID;
CREATE INDEX verification_counts_institution_id_idx ON verification_counts (institution_id, day, certificate_id, n);
