package credential

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// This file reads the members of a credential. JSON-LD can express one statement in several ways. A
// member that affects the verification must have its usual type, because a member in another form must not
// be treated as absent.

// readVC returns the statement of a credential (VC, 4). For a credential of version 1.1, the source is
// Verifiable Credentials Data Model v1.1, 4.
func readVC(c map[string]any) (Statement, error) {
	s := Statement{Badge: has(c["type"], "OpenBadgeCredential") || has(c["type"], "AchievementCredential")}
	contexts := list(c["@context"])
	if len(contexts) == 0 || contexts[0] != ContextVC && contexts[0] != contextVC1 { // VC, 4.3
		return s, errors.New("the first context is not that of Verifiable Credentials")
	}
	if !has(c["type"], "VerifiableCredential") {
		return s, errors.New("its type is not VerifiableCredential")
	}
	if err := s.readIssuer(c["issuer"]); err != nil {
		return s, err
	}
	if id, ok := c["id"]; ok {
		if s.ID, ok = id.(string); !ok {
			return s, errors.New("its id is not a text")
		}
	}
	s.Title = plainText(c["name"])
	from, until := "validFrom", "validUntil"
	if contexts[0] == contextVC1 {
		from, until = "issuanceDate", "expirationDate"
	}
	var err error
	if s.ValidFrom, err = readTime(c, from); err != nil {
		return s, err
	}
	if s.ValidUntil, err = readTime(c, until); err != nil {
		return s, err
	}
	subjects := list(c["credentialSubject"])
	if len(subjects) == 0 {
		return s, errors.New("it has no subject")
	}
	for _, v := range subjects {
		subject, ok := v.(map[string]any)
		if !ok {
			return s, errors.New("its subject is not an object")
		}
		s.readSubject(subject)
	}
	return s, nil
}

// readIssuer reads the issuer, which is an id or an object with an id (VC, 4.7).
func (s *Statement) readIssuer(v any) error {
	switch v := v.(type) {
	case string:
		s.IssuerID = v
	case map[string]any:
		s.IssuerID, s.IssuerName = text(v, "id"), plainText(v["name"])
	}
	if s.IssuerID == "" {
		return errors.New("it has no issuer")
	}
	s.IssuerSite = site(s.IssuerID)
	return nil
}

// readSubject reads the values of a subject. If a credential has several subjects, the statement has the
// first text that is found for each value.
func (s *Statement) readSubject(subject map[string]any) {
	for _, v := range list(subject["identifier"]) {
		if identity, ok := v.(map[string]any); ok && identity["hashed"] == false && identity["identityType"] == "name" {
			setFirst(&s.Recipient, identity["identityHash"])
		}
	}
	setFirst(&s.Recipient, subject["name"])
	for _, v := range list(subject["achievement"]) {
		s.readAchievement(v)
	}
}

func (s *Statement) readAchievement(v any) {
	achievement, ok := v.(map[string]any)
	if !ok {
		return
	}
	setFirst(&s.Achievement, achievement["name"])
	setFirst(&s.Description, achievement["description"])
	if criteria, ok := achievement["criteria"].(map[string]any); ok {
		setFirst(&s.Criteria, criteria["narrative"])
		setFirst(&s.Criteria, criteria["id"])
	}
}

// setFirst sets *to to the text of v if *to is empty.
func setFirst(to *string, v any) {
	if *to == "" {
		*to = plainText(v)
	}
}

// plainText returns the text of a member. If the text is in several languages (VC, 11.1), plainText returns
// the first.
func plainText(v any) string {
	for _, item := range list(v) {
		switch item := item.(type) {
		case string:
			return item
		case map[string]any:
			return text(item, "@value")
		}
	}
	return ""
}

// readTime returns the time of a member (VC, 4.9), or the zero time if there is no such member.
func readTime(c map[string]any, name string) (time.Time, error) {
	v, ok := c[name]
	if !ok {
		return time.Time{}, nil
	}
	s, ok := v.(string)
	if !ok {
		return time.Time{}, fmt.Errorf("the member %q is not a text", name)
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, fmt.Errorf("the member %q is not a time with a zone", name)
	}
	return t.UTC(), nil
}

// contains reports whether v is or contains an object with the given id.
func contains(v any, id string) bool {
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, func(item any) bool { return contains(item, id) })
	case map[string]any:
		for name, value := range v {
			if (name == "id" && value == id) || contains(value, id) {
				return true
			}
		}
	}
	return false
}
