-- Which stored file was looked at longest ago.
CREATE INDEX certificate_checks_checked_at_idx ON certificate_checks (name, checked_at);
