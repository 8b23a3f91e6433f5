-- erased marks an event whose certificate was erased before the event was delivered. It has no personal
-- data and no certificate_id.
ALTER TABLE webhook_events ADD COLUMN erased INTEGER NOT NULL DEFAULT 0;
