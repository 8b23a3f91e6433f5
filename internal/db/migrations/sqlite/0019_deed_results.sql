-- The result for each certificate of an operation on many certificates, in the order in
-- which they were processed. The results are deleted with the operation.
CREATE TABLE certificate_deed_results (
    deed_id INTEGER NOT NULL REFERENCES certificate_deeds (id),
    number  INTEGER NOT NULL,
    uuid    TEXT NOT NULL,
    result  TEXT NOT NULL,
    why     TEXT NOT NULL DEFAULT '',
    at      INTEGER NOT NULL,
    PRIMARY KEY (deed_id, number)
) STRICT;
CREATE INDEX certificate_deed_results_result_idx ON certificate_deed_results (deed_id, result, number);

ALTER TABLE certificate_deeds ADD COLUMN failed INTEGER NOT NULL DEFAULT 0;
CREATE INDEX certificate_deeds_institution_id_idx ON certificate_deeds (institution_id, id);
CREATE INDEX certificate_deeds_finished_at_idx ON certificate_deeds (finished_at) WHERE finished_at IS NOT NULL;
