package config

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"
)

// ACMEKeyVariable is the environment variable that contains the key of --acme-eab-kid, not the name of a file.
const ACMEKeyVariable = "CERTVAULT_ACME_EAB_KEY"

// AfterApply reads the key of the external account from the environment. The parser of the command line
// calls it.
func (t *TLS) AfterApply() error {
	t.ACMEKey = os.Getenv(ACMEKeyVariable)
	if t.ACMEKey != "" && t.ACMEKeyFile != "" {
		return fmt.Errorf("only one of --acme-eab-key-file and %s can be set", ACMEKeyVariable)
	}
	return nil
}

// ExternalAccount is an account at a certificate authority outside ACME. The ACME account is bound to it
// (RFC 8555, 7.3.4).
type ExternalAccount struct {
	KeyID string
	Key   []byte
}

// ExternalAccount returns the account of --acme-eab-kid, or nil if no setting of an account is set.
func (t *TLS) ExternalAccount() (*ExternalAccount, error) {
	text, source := t.ACMEKey, ACMEKeyVariable
	if t.ACMEKeyFile != "" {
		source = "--acme-eab-key-file"
	}
	switch {
	case t.ACMEKeyID == "" && t.ACMEKey == "" && t.ACMEKeyFile == "":
		return nil, nil //nolint:nilnil // most certificate authorities need no such account
	case t.ACMEKeyID == "":
		return nil, fmt.Errorf("%s requires --acme-eab-kid", source)
	case t.ACMEDomain == "":
		return nil, errors.New("--acme-eab-kid requires --acme-domain")
	case t.ACMEKey == "" && t.ACMEKeyFile == "":
		return nil, fmt.Errorf("--acme-eab-kid requires --acme-eab-key-file or %s", ACMEKeyVariable)
	case t.ACMEKeyFile != "":
		content, err := os.ReadFile(t.ACMEKeyFile)
		if err != nil {
			return nil, fmt.Errorf("--acme-eab-key-file: %w", err)
		}
		text = string(content)
	}
	// Some certificate authorities show the key with padding.
	key, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(text), "="))
	if err != nil || len(key) == 0 {
		return nil, fmt.Errorf("%s is not a key in base64url; copy the text that the certificate authority shows", source)
	}
	return &ExternalAccount{KeyID: t.ACMEKeyID, Key: key}, nil
}
