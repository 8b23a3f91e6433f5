package issuer

// CodeDigest returns the digest of a code.
func (s *Service) CodeDigest(secret, code string) ([]byte, error) { return s.codeDigest(secret, code) }
