-- The further addresses that people have verified. The main address, with which a person signs in, is in
-- users. An address is in one of the two tables, and only once.
CREATE TABLE user_addresses (
    email_folded TEXT COLLATE "C" PRIMARY KEY,
    email        TEXT NOT NULL,
    user_id      BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    verified_at  BIGINT NOT NULL
);
CREATE INDEX user_addresses_user_id_idx ON user_addresses (user_id, verified_at);

-- An older binary would create another account for such an address.
UPDATE schema_floor SET version = 64, release = '0.2.0' WHERE version < 64;
