-- The order in which stored files were last checked, oldest first.
CREATE INDEX certificate_checks_checked_at_idx ON certificate_checks (name, checked_at);
