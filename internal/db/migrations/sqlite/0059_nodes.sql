-- What an operator sees of a node: its name, its roles and its release. outbox: the node writes mail to
-- its own folder. rescued_at is set if the node is dead and other nodes continue its work.
ALTER TABLE nodes ADD COLUMN name TEXT NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN roles TEXT NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN release TEXT NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN outbox INTEGER NOT NULL DEFAULT 0;
ALTER TABLE nodes ADD COLUMN rescued_at INTEGER;

-- The node that has the lease of an endpoint, or '' if the endpoint is free. A node of an earlier release
-- leaves the column as it is.
ALTER TABLE webhook_endpoints ADD COLUMN leased_by TEXT NOT NULL DEFAULT '';
