// Package config defines the settings of an operator: structs with defaults, whose fields are set
// from flags, environment variables and a file. The package only checks the values; other packages
// use them.
package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Storage contains the settings of the data folder and the database. Commands that run at the same
// time as a server use these settings too.
type Storage struct {
	Data         string `default:"./certvault-data" help:"Data folder: embedded database, files, keys, outbox." placeholder:"DIR"`
	Database     string `help:"PostgreSQL database, postgres://..., instead of the embedded one." placeholder:"URL"`
	DatabaseRead string `help:"Replica of --database, postgres://..., for lists, exports and public pages." name:"database-read" placeholder:"URL"`
	Blob         string `help:"File store in S3, s3://BUCKET/PREFIX?endpoint=https://HOST, instead of the data folder. Requires --database." placeholder:"URL"`

	Cache string `help:"Folder with the compiled PDF renderer, from certvault warm. It is only read. Default: none." name:"cache" placeholder:"DIR" type:"path"`

	MasterKeyFile     string `help:"File of the master key. Default: keys/master.key." name:"master-key-file" placeholder:"FILE" type:"path"`
	KeyIdentityFile   string `help:"File of the identity that decrypts the signing keys. Default: keys/identity.txt." name:"key-identity-file" placeholder:"FILE" type:"path"`
	KeyPassphraseFile string `help:"File with the passphrase that protects the identity." name:"key-passphrase-file" placeholder:"FILE" type:"path"`

	// MasterKey and KeyIdentity are the secrets, not the names of files. They come only from the environment,
	// because other users of the machine can read the arguments of a process.
	MasterKey   string `kong:"-"`
	KeyIdentity string `kong:"-"`
}

// These environment variables contain the secrets, not the names of files.
const (
	MasterKeyVariable   = "CERTVAULT_MASTER_KEY"
	KeyIdentityVariable = "CERTVAULT_KEY_IDENTITY"
)

// AfterApply reads the secrets from the environment. The parser of the command line calls it.
func (s *Storage) AfterApply() error {
	s.MasterKey, s.KeyIdentity = os.Getenv(MasterKeyVariable), os.Getenv(KeyIdentityVariable)
	if s.MasterKey != "" && s.MasterKeyFile != "" {
		return fmt.Errorf("only one of --master-key-file and %s can be set", MasterKeyVariable)
	}
	if s.KeyIdentity != "" && s.KeyIdentityFile != "" {
		return fmt.Errorf("only one of --key-identity-file and %s can be set", KeyIdentityVariable)
	}
	if s.DatabaseRead != "" && s.Database == "" {
		return errors.New("--database-read requires --database, because only PostgreSQL has replicas")
	}
	return s.checkBlob()
}

// checkBlob checks the settings that --blob requires. With --blob, the data folder may be lost at any
// time, so it must not contain the only copy of a file.
func (s *Storage) checkBlob() error {
	if s.Blob == "" {
		return nil
	}
	if !strings.HasPrefix(s.Blob, "s3://") {
		return errors.New("--blob must begin with s3://; without --blob, files are in the data folder")
	}
	if s.Database == "" {
		return errors.New("--blob requires --database with a PostgreSQL database, because the embedded database is in the data folder, which may be deleted")
	}
	for _, secret := range []struct{ flag, file, value, variable string }{
		{"master-key-file", s.MasterKeyFile, s.MasterKey, MasterKeyVariable},
		{"key-identity-file", s.KeyIdentityFile, s.KeyIdentity, KeyIdentityVariable},
	} {
		if secret.file == "" && secret.value == "" {
			return fmt.Errorf("--blob requires --%s or %s, because the data folder may be deleted", secret.flag, secret.variable)
		}
		if secret.file != "" && isInside(s.Data, secret.file) {
			return fmt.Errorf("--%s must not be inside the data folder, which may be deleted with --blob; move the file", secret.flag)
		}
	}
	return nil
}

// isInside reports whether the path of a file is inside a folder.
func isInside(dir, file string) bool {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return false
	}
	if file, err = filepath.Abs(file); err != nil {
		return false
	}
	name, err := filepath.Rel(dir, file)
	return err == nil && filepath.IsLocal(name)
}

// KeyFolder returns the folder of the keys in the data folder.
func (s *Storage) KeyFolder() string { return filepath.Join(s.Data, "keys") }

// MasterKeyPath returns the file of the master key, or "" if the key is in the environment.
func (s *Storage) MasterKeyPath() string {
	switch {
	case s.MasterKey != "":
		return ""
	case s.MasterKeyFile != "":
		return s.MasterKeyFile
	}
	return filepath.Join(s.KeyFolder(), "master.key")
}

// maxFileCheckRate is the maximum of --file-check-rate, in megabytes per second.
const maxFileCheckRate = 10_000

// OwnCache returns the folder in which the vault stores the compiled PDF renderer, if the folder of --cache
// does not contain it.
func (s *Storage) OwnCache() string { return filepath.Join(s.Data, "cache") }

// defaultListen is the default of --listen.
const defaultListen = "localhost:8443"

// TLS contains the settings of the server's TLS certificate. The command doctor uses them too.
type TLS struct {
	TLSCert       string `help:"Certificate chain for TLS, PEM." name:"tls-cert" placeholder:"FILE" type:"path"`
	TLSKey        string `help:"Private key of the TLS certificate, PEM." name:"tls-key" placeholder:"FILE" type:"path"`
	ACMEDomain    string `help:"Host name for which the server obtains a TLS certificate by ACME." name:"acme-domain" placeholder:"NAME"`
	ACMEDirectory string `help:"ACME directory of a certificate authority other than Let's Encrypt." name:"acme-directory" placeholder:"URL"`
	ACMEKeyID     string `help:"Key id for external account binding (EAB), from the certificate authority." name:"acme-eab-kid" placeholder:"KID"`
	ACMEKeyFile   string `help:"File with the key of --acme-eab-kid, in base64url." name:"acme-eab-key-file" placeholder:"FILE" type:"path"`

	// ACMEKey is the key of --acme-eab-kid. It comes only from the environment, because other
	// users of the machine can read the arguments of a process.
	ACMEKey string `kong:"-"`
}

// checkTLS returns an error if a setting is not valid, or if another setting that it requires is missing.
func (t *TLS) checkTLS() error {
	if (t.TLSCert == "") != (t.TLSKey == "") {
		return errors.New("--tls-cert and --tls-key must be set together")
	}
	if _, err := t.ExternalAccount(); err != nil {
		return err
	}
	if t.ACMEDirectory == "" {
		return nil
	}
	if t.ACMEDomain == "" {
		return errors.New("--acme-directory requires --acme-domain")
	}
	if u, err := url.Parse(t.ACMEDirectory); err != nil || u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("--acme-directory: %q is not an https:// URL", t.ACMEDirectory)
	}
	return nil
}

// Serve contains the settings of the server.
type Serve struct {
	Storage
	Sockets `kong:"-"`

	Listen  string `default:"localhost:8443" help:"Address and port to listen on." placeholder:"HOST:PORT"`
	BaseURL string `help:"Base URL of links and QR codes. Default: https:// and --listen or --acme-domain." name:"base-url" placeholder:"URL"`
	TLS
	BehindProxy []string `help:"Serve plain HTTP to a proxy at these addresses that terminates TLS and sets X-Forwarded-Proto." name:"behind-proxy" placeholder:"CIDR"`
	SetupRemote bool     `help:"Accept the set-up link from other machines too." name:"setup-remote"`

	ProcessAttempts int `default:"8"    help:"Attempts at processing before a certificate is marked as failed." name:"process-attempts" placeholder:"N"`
	RateLimit       int `default:"1000" help:"Requests per minute for each API token; 0 means no limit."       name:"rate-limit"       placeholder:"N"`
	PublicRateLimit int `default:"120"  help:"Requests per minute to public pages for each IP address; 0 means no limit." name:"public-rate-limit" placeholder:"N"`

	BlobKeep Duration `default:"14d" help:"How long a file is kept after its last record is gone; 0 deletes it with the next daily sweep." name:"blob-keep" placeholder:"14d"`

	FileCheckRate int `default:"10" help:"Maximum rate of the monthly check of stored files, in megabytes per second." name:"file-check-rate" placeholder:"MB"`

	CORSOrigin []string `help:"Origins whose scripts may use the API with their own token. Default: none." name:"cors-origin" placeholder:"ORIGIN"`

	Log string `default:"" enum:",text,json" help:"Format of the log: text or json. Default: json; on a terminal, text that omits requests without an error." placeholder:"FORMAT"`

	LogLevel string `default:"info" enum:"debug,info,warn,error" help:"Lowest level of the lines in the log: debug, info, warn or error." name:"log-level" placeholder:"LEVEL"`

	Metrics string `help:"Address for Prometheus metrics, separate from the public port." placeholder:"HOST:PORT"`
	Debug   bool   `help:"Serve profiles (pprof) together with the metrics. Requires --metrics."`
	OTLP    string `help:"OpenTelemetry collector to which traces are sent by OTLP/HTTP, such as http://localhost:4318." name:"otlp" placeholder:"URL"`

	Mail
	Webhooks
	Backups
	Node

	Fonts []string `help:"Folders with fonts for further scripts, such as Chinese. Default: DATA/fonts and /usr/share/fonts." name:"fonts" placeholder:"DIR" type:"path"`

	TSA string `help:"URL of an RFC 3161 time-stamp authority for signatures." name:"tsa" placeholder:"URL"`
}

// Webhooks contains the settings of deliveries.
type Webhooks struct {
	WebhookAllow []string        `help:"Private addresses that webhooks may reach." name:"webhook-allow" placeholder:"CIDR"`
	WebhookRetry []time.Duration `help:"Delays between the attempts of a delivery, such as 5s,5m,2h." name:"webhook-retry" placeholder:"LIST"`
}

// Proxies returns the networks of --behind-proxy.
func (c *Serve) Proxies() ([]netip.Prefix, error) { return prefixes("behind-proxy", c.BehindProxy) }

// WebhookNetworks returns the networks of --webhook-allow.
func (c *Serve) WebhookNetworks() ([]netip.Prefix, error) {
	return prefixes("webhook-allow", c.WebhookAllow)
}

func prefixes(flag string, list []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, s := range list {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			a, err := netip.ParseAddr(s)
			if err != nil {
				return nil, fmt.Errorf("--%s: %q is neither an address nor a network such as 10.0.0.0/8", flag, s)
			}
			p = netip.PrefixFrom(a, a.BitLen())
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

// Finish sets the settings that depend on other settings, and checks all settings. Its error is a
// message for the operator.
func (c *Serve) Finish() error {
	if err := c.useSocket(); err != nil {
		return err
	}
	if c.Debug && c.Metrics == "" && c.Sockets.Metrics == nil {
		return errors.New("--debug requires --metrics, because profiles are never served on the public port")
	}
	_, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return fmt.Errorf("--listen: %q is not HOST:PORT", c.Listen)
	}
	// Port 0 is replaced by the actual port after the listener is bound.
	if port != "0" || c.BaseURL != "" {
		if err := c.FinishBaseURL(port); err != nil {
			return err
		}
	}
	if err := c.checkTLS(); err != nil {
		return err
	}
	modes := 0
	for _, set := range []bool{c.TLSCert != "", c.ACMEDomain != "", len(c.BehindProxy) > 0} {
		if set {
			modes++
		}
	}
	if modes > 1 {
		return errors.New("only one of --tls-cert, --acme-domain and --behind-proxy can be set")
	}
	if c.ProcessAttempts < 1 {
		return errors.New("--process-attempts must be 1 or more")
	}
	if c.RateLimit < 0 || c.PublicRateLimit < 0 {
		return errors.New("--rate-limit and --public-rate-limit must be 0 or more")
	}
	if c.FileCheckRate < 1 || c.FileCheckRate > maxFileCheckRate {
		return fmt.Errorf("--file-check-rate must be between 1 and %d", maxFileCheckRate)
	}
	if _, err := c.Proxies(); err != nil {
		return err
	}
	if err := c.checkOrigins(); err != nil {
		return err
	}
	if err := c.checkBackups(); err != nil {
		return err
	}
	if err := c.checkNode(); err != nil {
		return err
	}
	return c.checkOutgoing()
}

// checkOrigins checks the origins of --cors-origin and converts them to the form in which browsers send
// origins (RFC 6454, 6.2), because origins are compared as text.
func (c *Serve) checkOrigins() error {
	for i, origin := range c.CORSOrigin {
		u, err := url.Parse(strings.ToLower(strings.TrimSuffix(origin, "/")))
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || strings.Contains(u.Host, "*") || u.User != nil || u.Scheme+"://"+u.Host != u.String() {
			return fmt.Errorf("--cors-origin: %q must be https:// or http:// and a host, optionally with a port; wildcards are not supported", origin)
		}
		if port := u.Port(); u.Scheme == "https" && port == "443" || u.Scheme == "http" && port == "80" {
			u.Host = strings.TrimSuffix(u.Host, ":"+port)
		}
		c.CORSOrigin[i] = u.String()
	}
	return nil
}

// FinishBaseURL checks the base URL. If it is not set, FinishBaseURL derives it from --acme-domain, or
// else from --listen and port, which is the actual port if --listen has port 0. With --behind-proxy the
// base URL must be set, because it is printed on certificates and the public address is not known.
func (c *Serve) FinishBaseURL(port string) error {
	switch {
	case c.BaseURL != "":
		return c.checkBaseURL()
	case c.ACMEDomain != "":
		c.BaseURL = "https://" + c.ACMEDomain
		return c.checkBaseURL()
	case len(c.BehindProxy) > 0:
		return errors.New("--behind-proxy requires --base-url: the public address cannot be derived")
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return fmt.Errorf("--listen: %q is not HOST:PORT", c.Listen)
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "localhost"
	}
	c.BaseURL = "https://" + net.JoinHostPort(host, port)
	if port == "443" {
		c.BaseURL = strings.TrimSuffix(c.BaseURL, ":443")
	}
	return c.checkBaseURL()
}

func (c *Serve) checkBaseURL() error {
	u, err := url.Parse(strings.TrimRight(c.BaseURL, "/"))
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.ForceQuery || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return fmt.Errorf("--base-url: %q must be https:// and a host, optionally with a port", c.BaseURL)
	}
	if u.Path != "" {
		return fmt.Errorf("--base-url: %q must not have a path; Certvault requires its own host name", c.BaseURL)
	}
	c.BaseURL = u.String()
	return nil
}

func (c *Serve) checkOutgoing() error {
	if _, err := c.WebhookNetworks(); err != nil {
		return err
	}
	for _, wait := range c.WebhookRetry {
		if wait <= 0 {
			return errors.New("--webhook-retry: each delay must be more than 0")
		}
	}
	if err := c.checkMail(); err != nil {
		return err
	}
	if err := checkService("tsa", c.TSA); err != nil {
		return err
	}
	return checkService("otlp", c.OTLP)
}

// checkService checks the address of a service that the vault uses by HTTP. It may be empty.
func checkService(flag, address string) error {
	if address == "" {
		return nil
	}
	u, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("--%s is not a URL", flag) // err may contain a password
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("--%s: %q must be http:// or https:// and a host", flag, u.Redacted())
	}
	return nil
}
