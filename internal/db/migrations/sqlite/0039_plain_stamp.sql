-- Whether an institution's stamp has the plain form of earlier versions.
ALTER TABLE institutions ADD COLUMN plain_stamp INTEGER NOT NULL DEFAULT 0;
