package blob

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/encrypt"
	"github.com/minio/minio-go/v7/pkg/s3utils"
)

const (
	s3Scheme = "s3"
	// s3Form is the form of a location in S3, for messages.
	s3Form = "s3://BUCKET/PREFIX?endpoint=https://HOST&region=REGION&path-style=auto|on|off&sse=AES256|aws:kms:ID&ca=FILE"
	// s3Credentials describes where credentials can be set, for messages.
	//nolint:gosec // the text names variables
	s3Credentials = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, name a file in AWS_SHARED_CREDENTIALS_FILE, or give the machine a role"
	// defaultRegion is the region that servers other than AWS usually have.
	defaultRegion = "us-east-1"
	kmsPrefix     = "aws:kms:"
)

// s3Location is a parsed location in S3.
type s3Location struct {
	bucket string
	// prefix is the beginning of the names of all objects: "" or a name that ends with "/".
	prefix   string
	endpoint url.URL
	region   string
	lookup   minio.BucketLookupType
	// sse is the encryption to request, or nil for that of the bucket.
	sse encrypt.ServerSide
	// authorities are the accepted root certificates, or nil for those of the system.
	authorities *x509.CertPool
}

// parseS3 parses a location in S3. Its errors do not contain the user and password of the URL or the
// values of unknown parameters, because people put credentials there by mistake.
func parseS3(location string) (*s3Location, error) {
	u, err := url.Parse(location)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: the location must be %s", ErrLocation, s3Form)
	case u.User != nil:
		return nil, fmt.Errorf("%w: the location must not contain credentials; %s", ErrLocation, s3Credentials)
	case u.Fragment != "" || u.Opaque != "":
		return nil, fmt.Errorf("%w: the location must be %s", ErrLocation, s3Form)
	}
	l := &s3Location{bucket: u.Host}
	if err := s3utils.CheckValidBucketNameStrict(l.bucket); err != nil {
		return nil, fmt.Errorf("%w: the name of the bucket is not valid: %w", ErrLocation, err)
	}
	if l.prefix, err = parsePrefix(u.Path); err != nil {
		return nil, err
	}
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("%w: the parameters of the location cannot be read; the location must be %s", ErrLocation, s3Form)
	}
	if err := l.setParameters(values); err != nil {
		return nil, err
	}
	return l, nil
}

func parsePrefix(path string) (string, error) {
	path = strings.Trim(path, "/")
	if path == "" {
		return "", nil
	}
	for segment := range strings.SplitSeq(path, "/") {
		valid := strings.Trim(segment, ".") != "" && strings.IndexFunc(segment, func(c rune) bool {
			return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("-_.", c)
		}) < 0
		if !valid {
			return "", fmt.Errorf("%w: the prefix must consist of names of A-Z, a-z, 0-9, -, _ and ., joined by /", ErrLocation)
		}
	}
	return path + "/", nil
}

func (l *s3Location) setParameters(values url.Values) error {
	one := map[string]string{}
	for name, list := range values {
		switch name {
		case "endpoint", "region", "path-style", "sse", "ca":
		default:
			return fmt.Errorf("%w: the parameter %q is not known; the location must be %s. It must not contain credentials: %s", ErrLocation, name, s3Form, s3Credentials)
		}
		if len(list) != 1 || list[0] == "" {
			return fmt.Errorf("%w: the parameter %s must have one value", ErrLocation, name)
		}
		one[name] = list[0]
	}
	if err := l.setEndpoint(one["endpoint"]); err != nil {
		return err
	}
	l.region = cmp.Or(one["region"], os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"), defaultRegion)
	switch one["path-style"] {
	case "", "auto":
		l.lookup = minio.BucketLookupAuto
	case "on":
		l.lookup = minio.BucketLookupPath
	case "off":
		l.lookup = minio.BucketLookupDNS
	default:
		return fmt.Errorf("%w: path-style must be auto, on or off", ErrLocation)
	}
	if err := l.setEncryption(one["sse"]); err != nil {
		return err
	}
	return l.setAuthorities(one["ca"])
}

func (l *s3Location) setEndpoint(text string) error {
	u, err := url.Parse(cmp.Or(text, "https://s3.amazonaws.com"))
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%w: endpoint must be https:// or http:// and a host, optionally with a port", ErrLocation)
	}
	if u.User != nil {
		return fmt.Errorf("%w: endpoint must not contain credentials; %s", ErrLocation, s3Credentials)
	}
	l.endpoint = *u
	return nil
}

func (l *s3Location) setEncryption(text string) (err error) {
	switch {
	case text == "":
	case text == "AES256":
		l.sse = encrypt.NewSSE()
	case strings.HasPrefix(text, kmsPrefix) && len(text) > len(kmsPrefix):
		if l.sse, err = encrypt.NewSSEKMS(strings.TrimPrefix(text, kmsPrefix), nil); err != nil {
			return fmt.Errorf("%w: sse: %w", ErrLocation, err)
		}
	default:
		return fmt.Errorf("%w: sse must be AES256, or %sID with the id of a key", ErrLocation, kmsPrefix)
	}
	return nil
}

// setAuthorities accepts the certificates in a file, besides those of the system.
func (l *s3Location) setAuthorities(file string) error {
	if file == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("%w: ca: %w", ErrLocation, err)
	}
	if l.authorities, err = x509.SystemCertPool(); err != nil {
		l.authorities = x509.NewCertPool()
	}
	if !l.authorities.AppendCertsFromPEM(text) {
		return fmt.Errorf("%w: ca: %s contains no certificate in PEM", ErrLocation, file)
	}
	return nil
}

// errNoCredentials means that none of the places in s3Credentials has credentials for S3.
var errNoCredentials = errors.New("no credentials for S3 were found; " + s3Credentials)
