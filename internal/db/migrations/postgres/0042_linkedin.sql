-- The number of an institution's page on LinkedIn, for the link that adds a certificate to a profile.

ALTER TABLE institutions ADD COLUMN linkedin TEXT NOT NULL DEFAULT '';
