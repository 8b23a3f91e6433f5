-- Portfolios are pages on which people show certificates that they choose. slug is the end of the
-- page's address. visible reports whether the page is switched on, and listed whether search engines may
-- index it. Times are in microseconds.
CREATE TABLE portfolios (
    user_id      BIGINT PRIMARY KEY REFERENCES users (id),
    slug         TEXT NOT NULL,
    display_name TEXT NOT NULL,
    visible      BOOLEAN NOT NULL,
    listed       BOOLEAN NOT NULL,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    CONSTRAINT portfolios_slug_key UNIQUE (slug)
);

-- The certificates of portfolios, in the order of position. A certificate that no longer belongs to the
-- person is not shown.
CREATE TABLE portfolio_entries (
    user_id        BIGINT NOT NULL REFERENCES portfolios (user_id),
    certificate_id BIGINT NOT NULL REFERENCES certificates (id),
    position       BIGINT NOT NULL,
    PRIMARY KEY (user_id, certificate_id)
);
CREATE INDEX portfolio_entries_certificate_id_idx ON portfolio_entries (certificate_id);

-- Addresses that were given up, as SHA-256 of the slug. Until free_at, no one but the person who gave one
-- up can use it, so that links to a portfolio cannot lead to the page of another person. user_id is null
-- after the account was deleted.
CREATE TABLE portfolio_addresses (
    hash    BYTEA PRIMARY KEY,
    user_id BIGINT REFERENCES users (id),
    free_at BIGINT NOT NULL
);
CREATE INDEX portfolio_addresses_user_id_idx ON portfolio_addresses (user_id) WHERE user_id IS NOT NULL;
CREATE INDEX portfolio_addresses_free_at_idx ON portfolio_addresses (free_at);
