-- Who made a token, as people know them; empty of those made before this.
ALTER TABLE tokens ADD COLUMN creator TEXT NOT NULL DEFAULT '';
