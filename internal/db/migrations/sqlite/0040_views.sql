-- The views of the list of certificates that a member has saved. query is the query string of the
-- list's address. The views of a member end with the membership.
CREATE TABLE saved_views (
    uuid           TEXT PRIMARY KEY,
    institution_id INTEGER NOT NULL,
    user_id        INTEGER NOT NULL,
    name           TEXT NOT NULL,
    query          TEXT NOT NULL,
    created_at     INTEGER NOT NULL,
    CONSTRAINT saved_views_name_key UNIQUE (institution_id, user_id, name),
    FOREIGN KEY (institution_id, user_id) REFERENCES members (institution_id, user_id) ON DELETE CASCADE
) STRICT;

-- The first time at which a mailed link was opened, or NULL.
ALTER TABLE mail_links ADD COLUMN opened_at INTEGER;
