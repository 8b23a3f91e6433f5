package credential

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// Input contains the values of a credential. Optional fields may be empty.
type Input struct {
	// ID is the uuid of the certificate.
	ID     string
	Title  string
	Issuer Issuer
	// Recipient needs an e-mail address, a name or a DID.
	Recipient Recipient
	// IssuedOn is the issue date. The credential is valid from the beginning of this day in UTC.
	IssuedOn time.Time
	// ExpiresOn is the last day, in UTC, on which the credential is valid. Optional.
	ExpiresOn   time.Time
	Achievement Achievement
	// Document is the verified PDF. Optional.
	Document *Document
	// Status is the credential's place in a status list. Optional.
	Status *StatusEntry
}

// Issuer is the institution (OB, B.1.17 Profile).
type Issuer struct {
	DID  string
	Name string
	URL  string // optional
}

// Recipient is the person who earned the achievement (OB, B.1.3 AchievementSubject).
type Recipient struct {
	// DID identifies a key. The person has proved possession of the private key. If DID is not empty, the
	// credential does not contain a hash of the e-mail address.
	DID string
	// Name is empty if the institution hides names.
	Name string
	// Email is added as a hash with Salt, never as text.
	Email string
	// Salt is random and different for each credential, so that the hashes of one address differ.
	Salt string
}

// Achievement is what the person achieved (OB, B.1.1).
type Achievement struct {
	// ID is a URL or URN that all credentials for this achievement share.
	ID          string
	Name        string
	Description string
	// Criteria describes how the achievement is earned. CriteriaURL is the address of such a description.
	// At least one of them is required (OB, B.1.7).
	Criteria    string
	CriteriaURL string
	Skills      []Skill
	// Image is the URL, or data URL, of a picture of the achievement. Optional.
	Image        string
	ImageCaption string
}

// Skill is a skill that the achievement shows. A skill with a URL is an alignment with a framework
// (OB, B.1.4), and a skill without a URL is a tag.
type Skill struct {
	Name string
	// URL identifies the skill in a framework. Framework, Code and Description are ignored without it.
	URL, Framework, Code, Description string
}

// Document is a file that shows the achievement: the verified PDF (OB, B.1.8 Evidence).
type Document struct {
	Name   string
	URL    string // address of the file or of the certificate's public page; optional
	SHA256 [sha256.Size]byte
}

// StatusEntry is the place of a credential in a status list (BSL, 2.1).
type StatusEntry struct {
	List  string // URL of the list
	Index int
}

// Credential is a credential without a proof. It does not change after New.
type Credential struct {
	in       Input
	document document
}

// document is a credential in JSON, with the members in the order of the specification (VC, 4; OB, B.1).
type document struct {
	Context           []string      `json:"@context"`
	ID                string        `json:"id"`
	Type              []string      `json:"type"`
	Name              string        `json:"name"`
	Issuer            profile       `json:"issuer"`
	ValidFrom         string        `json:"validFrom"`
	ValidUntil        string        `json:"validUntil,omitempty"`
	AwardedDate       string        `json:"awardedDate"`
	CredentialSubject subject       `json:"credentialSubject"`
	Evidence          []evidence    `json:"evidence,omitempty"`
	CredentialStatus  *statusMember `json:"credentialStatus,omitempty"`
	Proof             *proof        `json:"proof,omitempty"`
}

type profile struct {
	ID   string   `json:"id"`
	Type []string `json:"type"`
	Name string   `json:"name"`
	URL  string   `json:"url,omitempty"`
}

type subject struct {
	ID          string        `json:"id,omitempty"`
	Type        []string      `json:"type"`
	Identifier  []identity    `json:"identifier,omitempty"`
	Achievement achievementV3 `json:"achievement"`
}

type identity struct {
	Type         string `json:"type"`
	Hashed       bool   `json:"hashed"`
	IdentityHash string `json:"identityHash"`
	IdentityType string `json:"identityType"`
	Salt         string `json:"salt,omitempty"`
}

type achievementV3 struct {
	ID              string      `json:"id"`
	Type            []string    `json:"type"`
	AchievementType string      `json:"achievementType"`
	Name            string      `json:"name"`
	Description     string      `json:"description"`
	Criteria        criteria    `json:"criteria"`
	Image           *picture    `json:"image,omitempty"`
	Alignment       []alignment `json:"alignment,omitempty"`
	Tag             []string    `json:"tag,omitempty"`
}

type criteria struct {
	ID        string `json:"id,omitempty"`
	Narrative string `json:"narrative,omitempty"`
}

type picture struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Caption string `json:"caption,omitempty"`
}

type alignment struct {
	Type              []string `json:"type"`
	TargetName        string   `json:"targetName"`
	TargetURL         string   `json:"targetUrl"`
	TargetDescription string   `json:"targetDescription,omitempty"`
	TargetFramework   string   `json:"targetFramework,omitempty"`
	TargetCode        string   `json:"targetCode,omitempty"`
}

type evidence struct {
	ID        string   `json:"id,omitempty"`
	Type      []string `json:"type"`
	Name      string   `json:"name"`
	Narrative string   `json:"narrative"`
	Genre     string   `json:"genre"`
}

type statusMember struct {
	ID                   string `json:"id"`
	Type                 string `json:"type"`
	StatusPurpose        string `json:"statusPurpose"`
	StatusListIndex      string `json:"statusListIndex"`
	StatusListCredential string `json:"statusListCredential"`
}

// maxImage is the maximum length of the URL of a picture. A data URL contains the picture itself.
const maxImage = 1 << 20

// New builds a credential. It returns an error if a required value is missing, or if the result would
// not be a valid OpenBadgeCredential.
func New(in Input) (*Credential, error) {
	in.Achievement.Skills = append([]Skill(nil), in.Achievement.Skills...)
	if err := in.check(); err != nil {
		return nil, fmt.Errorf("building a credential: %w", err)
	}
	c := &Credential{in: in, document: document{
		Context:     []string{ContextVC, ContextOB},
		ID:          "urn:uuid:" + in.ID,
		Type:        []string{"VerifiableCredential", "OpenBadgeCredential"},
		Name:        in.Title,
		Issuer:      profile{ID: in.Issuer.DID, Type: []string{"Profile"}, Name: in.Issuer.Name, URL: in.Issuer.URL},
		ValidFrom:   startOfDay(in.IssuedOn).Format(time.RFC3339),
		AwardedDate: startOfDay(in.IssuedOn).Format(time.RFC3339),
		CredentialSubject: subject{
			ID:          in.Recipient.DID,
			Type:        []string{"AchievementSubject"},
			Identifier:  in.Recipient.identifiers(),
			Achievement: in.Achievement.object(),
		},
	}}
	if !in.ExpiresOn.IsZero() {
		c.document.ValidUntil = endOfDay(in.ExpiresOn).Format(time.RFC3339)
	}
	if d := in.Document; d != nil {
		c.document.Evidence = []evidence{{
			ID: d.URL, Type: []string{"Evidence"}, Name: d.Name, Genre: "certificate",
			Narrative: "SHA-256 " + hex.EncodeToString(d.SHA256[:]),
		}}
	}
	if s := in.Status; s != nil {
		index := strconv.Itoa(s.Index)
		c.document.CredentialStatus = &statusMember{
			ID: s.List + "#" + index, Type: "BitstringStatusListEntry", StatusPurpose: purposeRevocation,
			StatusListIndex: index, StatusListCredential: s.List,
		}
	}
	return c, nil
}

// JSON returns the credential without a proof.
func (c *Credential) JSON() ([]byte, error) { return marshal(c.document) }

func startOfDay(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

func endOfDay(t time.Time) time.Time { return startOfDay(t).Add(24*time.Hour - time.Second) }

// identifiers returns the objects that identify a person (OB, B.1.11 IdentityObject).
func (r Recipient) identifiers() []identity {
	var out []identity
	if r.Name != "" {
		out = append(out, identity{Type: "IdentityObject", IdentityHash: r.Name, IdentityType: "name"})
	}
	if r.Email != "" && r.DID == "" {
		sum := sha256.Sum256([]byte(r.Email + r.Salt))
		out = append(out, identity{
			Type: "IdentityObject", Hashed: true, IdentityHash: "sha256$" + hex.EncodeToString(sum[:]),
			IdentityType: "emailAddress", Salt: r.Salt,
		})
	}
	return out
}

func (a Achievement) object() achievementV3 {
	out := achievementV3{
		ID: a.ID, Type: []string{"Achievement"}, AchievementType: "Certificate", Name: a.Name, Description: a.Description,
		Criteria: criteria{ID: a.CriteriaURL, Narrative: a.Criteria},
	}
	if a.Image != "" {
		out.Image = &picture{ID: a.Image, Type: "Image", Caption: a.ImageCaption}
	}
	for _, s := range a.Skills {
		if s.URL == "" {
			out.Tag = append(out.Tag, s.Name)
			continue
		}
		out.Alignment = append(out.Alignment, alignment{
			Type: []string{"Alignment"}, TargetName: s.Name, TargetURL: s.URL,
			TargetDescription: s.Description, TargetFramework: s.Framework, TargetCode: s.Code,
		})
	}
	if !slices.Equal(sorted(out.Tag, cmp.Compare[string]), sorted(out.Tag, compareUTF16)) {
		out.Tag = []string{strings.Join(out.Tag, ", ")}
	}
	return out
}

// compareUTF16 compares texts by UTF-16 code units. JavaScript libraries sort the quads of a dataset in
// this order, and not by code points as RDFC requires (RDFC, 4.4.3, 7). Therefore rdf-canonize 5
// rejects a correct signature if one tag begins with an emoji and another tag with a fullwidth letter.
// This affects only tags, because no two other texts in a credential have the same subject and predicate.
// If the two orders of the tags differ, Achievement.object joins the tags into one tag. JSON-LD maps a tag
// to the property keywords of schema.org, whose text may be a list separated by commas.
func compareUTF16(a, b string) int {
	return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
}

func sorted(texts []string, compare func(a, b string) int) []string {
	return slices.SortedFunc(slices.Values(texts), compare)
}

var uuidPattern = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// check returns an error if no valid credential can be built from the input.
func (in *Input) check() error {
	required := []struct{ name, value string }{
		{"title", in.Title},
		{"name of the issuer", in.Issuer.Name},
		{"name of the achievement", in.Achievement.Name},
		{"description of the achievement", in.Achievement.Description},
		{"criteria of the achievement", in.Achievement.Criteria + in.Achievement.CriteriaURL},
		{"identifier of the recipient", in.Recipient.DID + in.Recipient.Email + in.Recipient.Name},
	}
	if in.Document != nil {
		required = append(required, struct{ name, value string }{"name of the document", in.Document.Name})
	}
	for _, s := range in.Achievement.Skills {
		required = append(required, struct{ name, value string }{"name of a skill", s.Name})
	}
	for _, r := range required {
		if r.value == "" {
			return fmt.Errorf("the %s is missing", r.name)
		}
	}
	switch {
	case !uuidPattern.MatchString(in.ID):
		return fmt.Errorf("%q is not a uuid", in.ID)
	case in.IssuedOn.IsZero():
		return errors.New("the issue date is missing")
	case !in.ExpiresOn.IsZero() && startOfDay(in.ExpiresOn).Before(startOfDay(in.IssuedOn)):
		return errors.New("the last valid day is before the issue date")
	case in.Recipient.Email != "" && in.Recipient.DID == "" && in.Recipient.Salt == "":
		return errors.New("an e-mail address needs a salt")
	case in.Status != nil && (in.Status.Index < 0 || in.Status.Index >= StatusListSize):
		return fmt.Errorf("%d is not an index of a status list", in.Status.Index)
	case len(in.Achievement.Image) > maxImage:
		return errors.New("the picture is too large")
	}
	if err := in.checkURLs(); err != nil {
		return err
	}
	return in.checkText()
}

// checkURLs checks the values that JSON-LD treats as IRIs.
func (in *Input) checkURLs() error {
	urls := []string{in.Issuer.DID, in.Achievement.ID}
	optional := []string{in.Issuer.URL, in.Recipient.DID, in.Achievement.CriteriaURL, in.Achievement.Image}
	if in.Document != nil {
		optional = append(optional, in.Document.URL)
	}
	if in.Status != nil {
		urls = append(urls, in.Status.List)
	}
	for _, s := range in.Achievement.Skills {
		optional = append(optional, s.URL)
	}
	for _, u := range optional {
		if u != "" {
			urls = append(urls, u)
		}
	}
	for _, u := range urls {
		if _, err := newIRI(u); err != nil {
			return err
		}
		if _, err := url.Parse(u); err != nil {
			return fmt.Errorf("the URL is not valid: %w", err)
		}
	}
	return nil
}

// checkText returns an error for text that is not UTF-8, because encoding/json would change such text.
func (in *Input) checkText() error {
	a := in.Achievement
	texts := []string{in.Title, in.Issuer.Name, in.Recipient.Name, in.Recipient.Email, in.Recipient.Salt, a.Name, a.Description, a.Criteria, a.ImageCaption}
	for _, s := range a.Skills {
		texts = append(texts, s.Name, s.Framework, s.Code, s.Description)
	}
	if in.Document != nil {
		texts = append(texts, in.Document.Name)
	}
	for _, t := range texts {
		if !utf8.ValidString(t) {
			return errNotUTF8
		}
	}
	return nil
}
