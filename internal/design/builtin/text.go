package builtin

// words are the texts of a language by key.
type words map[string]string

// english are the texts of the fields. A field whose text is not here has placeholders only.
var english = words{
	"achievement": "Certificate of achievement",
	"completion":  "Certificate of completion",
	"competence":  "Certificate of competence",
	"diploma":     "Diploma",
	"certificate": "Certificate",
	"credential":  "Credential",
	"certify":     "This is to certify that",
	"known":       "Be it known that",
	"presented":   "Presented to",
	"awarded":     "Awarded to",
	"completed":   "has successfully completed",
	"fulfilled":   "having fulfilled all that is required, is awarded",
	"examined":    "has passed the examination and is qualified as",
	"for":         "for completing",
	"issued":      "Date of issue",
	"signature":   "Authorised signature",
}
