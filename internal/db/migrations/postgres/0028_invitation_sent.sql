-- The index finds the last invitation that an institution mailed to an address, even if it was revoked.

CREATE INDEX invitations_sent_at_idx ON invitations (institution_id, email_folded, sent_at);
