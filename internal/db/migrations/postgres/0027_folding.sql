-- outside a transaction
-- An address is folded as follows: NFC, the ASCII letters of the local part in lower case, and
-- the domain in ASCII. Until now, all letters of the local part were in lower case, so that two
-- mailboxes could have the same folded form: the lower case of U+0130 is the ASCII letter i. A
-- mail that verified an address went to the form that was entered, so the new folded form is the
-- mailbox that received it. It is finer than the old one, and therefore no two rows collide.
--
-- email_folded_before is the old folded form of an account whose form has changed. certvault
-- doctor reports the account until an operator has accepted it, or its address has changed.
-- Certificates of the old form that the account has claimed become unclaimed, and links by which
-- the account has shared them stop working.
ALTER TABLE users ADD COLUMN IF NOT EXISTS email_folded_before TEXT;

-- With the collation C, lower changes only ASCII letters. Only addresses with other characters
-- can change. In large tables, a statement first finds the few rows that it changes, because others would
-- wait for a changed row until all rows are read.
UPDATE users SET email_folded_before = email_folded, email_folded = lower(normalize(split_part(email, '@', 1), NFC) COLLATE "C") || substr(email_folded, strpos(email_folded, '@'))
    WHERE octet_length(email) <> char_length(email) AND email_folded <> lower(normalize(split_part(email, '@', 1), NFC) COLLATE "C") || substr(email_folded, strpos(email_folded, '@'));
UPDATE certificates SET email_folded = lower(normalize(split_part(email, '@', 1), NFC) COLLATE "C") || substr(email_folded, strpos(email_folded, '@'))
    WHERE id = ANY (ARRAY (SELECT id FROM certificates WHERE octet_length(email) <> char_length(email) AND email_folded <> lower(normalize(split_part(email, '@', 1), NFC) COLLATE "C") || substr(email_folded, strpos(email_folded, '@'))));
UPDATE invitations SET email_folded = lower(normalize(split_part(email, '@', 1), NFC) COLLATE "C") || substr(email_folded, strpos(email_folded, '@'))
    WHERE octet_length(email) <> char_length(email) AND email_folded <> lower(normalize(split_part(email, '@', 1), NFC) COLLATE "C") || substr(email_folded, strpos(email_folded, '@'));
UPDATE notices SET email_folded = lower(normalize(split_part(email, '@', 1), NFC) COLLATE "C") || substr(email_folded, strpos(email_folded, '@'))
    WHERE id = ANY (ARRAY (SELECT id FROM notices WHERE octet_length(email) <> char_length(email) AND email_folded <> lower(normalize(split_part(email, '@', 1), NFC) COLLATE "C") || substr(email_folded, strpos(email_folded, '@'))));
UPDATE shares SET revoked_at = CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)
    WHERE revoked_at IS NULL AND certificate_id IN (SELECT id FROM certificates WHERE customer_id IS NOT NULL
        AND email_folded IN (SELECT email_folded_before FROM users WHERE email_folded_before IS NOT NULL)
        AND EXISTS (SELECT 1 FROM customers k JOIN users u ON u.id = k.user_id
            WHERE k.institution_id = certificates.institution_id AND k.number = certificates.customer_id AND u.email_folded_before = certificates.email_folded));
UPDATE certificates SET customer_id = NULL
    WHERE id = ANY (ARRAY (SELECT id FROM certificates WHERE customer_id IS NOT NULL
        AND email_folded IN (SELECT email_folded_before FROM users WHERE email_folded_before IS NOT NULL)
        AND EXISTS (SELECT 1 FROM customers k JOIN users u ON u.id = k.user_id
            WHERE k.institution_id = certificates.institution_id AND k.number = certificates.customer_id AND u.email_folded_before = certificates.email_folded)));
INSERT INTO unsubscribes (institution_id, email_folded, created_at)
    SELECT l.institution_id, lower(normalize(split_part(l.email, '@', 1), NFC) COLLATE "C") || substr(l.email_folded, strpos(l.email_folded, '@')), min(s.created_at)
    FROM mail_links l JOIN unsubscribes s ON s.institution_id = l.institution_id AND s.email_folded = l.email_folded
    WHERE octet_length(l.email) <> char_length(l.email) AND l.email_folded <> lower(normalize(split_part(l.email, '@', 1), NFC) COLLATE "C") || substr(l.email_folded, strpos(l.email_folded, '@')) GROUP BY 1, 2
    ON CONFLICT DO NOTHING;
UPDATE mail_links SET email_folded = lower(normalize(split_part(email, '@', 1), NFC) COLLATE "C") || substr(email_folded, strpos(email_folded, '@'))
    WHERE id = ANY (ARRAY (SELECT id FROM mail_links WHERE octet_length(email) <> char_length(email) AND email_folded <> lower(normalize(split_part(email, '@', 1), NFC) COLLATE "C") || substr(email_folded, strpos(email_folded, '@'))));
-- A link that was mailed for another form of its address verifies nothing.
DELETE FROM proofs
    WHERE octet_length(email) <> char_length(email) AND email_folded <> lower(normalize(split_part(email, '@', 1), NFC) COLLATE "C") || substr(email_folded, strpos(email_folded, '@'));

-- name_allowed is the name of an institution that an operator has allowed although it looks like
-- the name of another institution.
ALTER TABLE institutions ADD COLUMN IF NOT EXISTS name_allowed TEXT;
