-- The last mail of an institution to an address, also of invitations that were revoked.

CREATE INDEX invitations_sent_at_idx ON invitations (institution_id, email_folded, sent_at);
