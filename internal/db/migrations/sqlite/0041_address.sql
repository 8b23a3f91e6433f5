-- An optional name for each endpoint, because two endpoints of one host look the same otherwise. The
-- base URL with which the server was last started, so that doctor can check it.

ALTER TABLE webhook_endpoints ADD COLUMN name TEXT NOT NULL DEFAULT '';
ALTER TABLE installations ADD COLUMN base_url TEXT NOT NULL DEFAULT '';
