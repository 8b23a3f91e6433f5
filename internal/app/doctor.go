package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/backup"
	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/pdfium"
	"github.com/certvault/certvault/internal/search"
	"github.com/certvault/certvault/internal/token"
	"github.com/certvault/certvault/internal/web"
	"github.com/certvault/certvault/internal/webhook"
)

// Finding is the result of one check.
type Finding struct {
	Name string `json:"name"`
	Good bool   `json:"good"`
	// Warning means that the finding is not good, but that the command doctor does not fail because of it.
	Warning bool   `json:"warning"`
	Detail  string `json:"detail"`
	// Remedy says what to do about a finding that is not good, in one sentence.
	Remedy string `json:"remedy,omitempty"`
}

// warning is the error of a finding whose Warning is set.
type warning struct{ error }

const (
	// lowDisk is the share of free disk space below which Examine reports a problem.
	lowDisk = 0.10
	// stuckAfter is the time in processing after which a certificate is considered stuck.
	stuckAfter = time.Hour
	// examineTime limits the duration of Examine. The check of the database structure reads the whole
	// SQLite database.
	examineTime = 5 * time.Minute
	// maxAddresses is the maximum number of addresses in a finding, because a finding is one line.
	maxAddresses = 20
)

// Examine checks an installation. It changes no stored files and no records.
func Examine(ctx context.Context, s config.Storage) []Finding {
	ctx, cancel := context.WithTimeout(ctx, examineTime)
	defer cancel()
	return withRemedies(examine(ctx, s))
}

func examine(ctx context.Context, s config.Storage) []Finding {
	setUmask()
	if s.Blob != "" {
		if err := os.MkdirAll(s.Data, 0o700); err != nil { // with --blob, the folder may have been deleted
			return []Finding{finding("data folder", "", err)}
		}
	}
	if _, err := os.Stat(s.Data); err != nil {
		return []Finding{finding("data folder", "", err)}
	}
	free, diskErr := disk(s.Data)
	_, keyErr := masterKey(s, false)
	list := []Finding{
		finding("data folder", s.Data, examinePermissions(s.Data)),
		finding("disk", free, diskErr),
		finding("master key", "readable", keyErr),
		finding("secret files", "private", examineSecretFiles(s.MasterKeyFile, s.KeyIdentityFile, s.KeyPassphraseFile)),
	}
	if s.Database == "" {
		list = append(list, finding("file system", "local", examineNetwork(s.Data)))
	}
	list = append(list, examineFileStore(ctx, s)...)
	r, err := pdfium.New(ctx, pdfium.Options{CompiledDir: s.Cache, CacheDir: s.OwnCache()})
	if err == nil {
		err = r.Close(ctx)
	}
	if err == nil {
		err = checkCompiler()
	}
	list = append(list, finding("PDF renderer", "compiled", err))
	return append(list, database(ctx, s)...)
}

func disk(dir string) (string, error) {
	share, err := blob.FreeShare(dir)
	if err != nil {
		return "", err
	}
	if share < lowDisk {
		return "", fmt.Errorf("%.0f%% free; uploads are rejected below 5%%, and no certificates are created below 1%%", 100*share)
	}
	return fmt.Sprintf("%.0f%% free", 100*share), nil
}

// openExisting opens the database. It does not create a SQLite database.
func openExisting(ctx context.Context, s config.Storage) (*db.DB, error) {
	if s.Database == "" {
		if _, err := os.Stat(filepath.Join(s.Data, db.FileName)); err != nil {
			return nil, err
		}
	}
	return db.Open(ctx, s.Data, s.Database)
}

func database(ctx context.Context, s config.Storage) []Finding {
	if err := backup.CheckInterrupted(ctx, s.Data, nil); err != nil {
		return []Finding{finding("interrupted restore", "", err)}
	}
	d, err := openExisting(ctx, s)
	if err != nil {
		return []Finding{finding("database", "", err)}
	}
	defer func() { _ = d.Close() }()
	if err := d.CheckRestoring(ctx); err != nil {
		return []Finding{finding("interrupted restore", "", err)}
	}
	list := []Finding{finding("database", string(d.Dialect), nil)}
	options, err := keyOptions(s, "")
	if err != nil {
		return append(list, finding("signing keys", "", err))
	}
	options.ReadOnly = true
	keys := authority.New(d, options)
	applied, known, err := d.SchemaVersion(ctx)
	if err == nil {
		err = d.CheckSchema(ctx)
	}
	list = append(list, finding("schema", fmt.Sprintf("version %d of %d", applied, known), err))
	if err != nil {
		return list // the other checks need a schema that this version can use
	}
	restore, err := examineRestore(ctx, d, func(ctx context.Context) (*backup.Unknown, error) {
		return backup.ListUnknown(ctx, backup.Services{
			Accounts: account.New(d, time.Now), Tokens: token.New(d, time.Now), Hooks: webhook.New(d, nil, time.Now), Keys: keys,
		}, time.Now())
	})
	if err != nil {
		list = append(list, finding("restore", "", err))
	} else if restore != nil {
		list = append(list, *restore)
	}
	stuck, err := cert.Stuck(ctx, d, time.Now().Add(-stuckAfter))
	totals, e := search.Totals(ctx, d)
	err = errors.Join(err, e)
	failed := 0
	for _, n := range totals {
		failed += n[cert.Failed]
	}
	f := Finding{Name: "certificates", Good: err == nil && stuck == 0, Detail: fmt.Sprintf("%d in processing for over an hour, %d failed", stuck, failed)}
	if err != nil {
		f.Detail = err.Error()
	}
	list = append(list, f, counts(ctx, d),
		finding("secrets of the database", "the master key and the identity belong to the database", examineSecretsOf(ctx, d, s, keys)))
	usable, err := examineKeys(ctx, d, keys, time.Now())
	list = append(list, finding("signing keys", usable, err))
	if applied == known {
		list = append(list, institutionNames(ctx, d), addresses(ctx, d), examineAddress(ctx, d))
	}
	if s.DatabaseRead != "" {
		list = append(list, examineReplica(ctx, d, s.DatabaseRead))
	}
	return append(list, examineStorage(ctx, d, s.DatabaseRead != "", time.Now())...)
}

// institutionNames checks that no two institutions have names that look the same, unless an operator has
// allowed the name.
func institutionNames(ctx context.Context, d *db.DB) Finding {
	prefixes, err := account.NameConflicts(ctx, d)
	f := Finding{Name: "institution names", Good: err == nil && len(prefixes) == 0, Detail: "no two look the same, or an operator has allowed it"}
	switch {
	case err != nil:
		f.Detail = err.Error()
	case len(prefixes) > 0:
		f.Detail = "institutions with the following prefixes have names that look the same as that of another one: " + strings.Join(prefixes, ", ")
	}
	return f
}

// errLocalAddress means that the base URL works only on this machine or in its own network.
var errLocalAddress = errors.New("works only on this machine or in its own network, and is printed on every certificate")

// checkAddress returns an error that wraps errLocalAddress if web.IsLocal reports true for the base URL.
func checkAddress(base string) error {
	if web.IsLocal(base) {
		return fmt.Errorf("%s %w", base, errLocalAddress)
	}
	return nil
}

// examineAddress checks the base URL with which the server was last started.
func examineAddress(ctx context.Context, d *db.DB) Finding {
	base, err := d.BaseURL(ctx)
	switch {
	case err == nil && base == "":
		base = "not known yet; the server stores it when it starts"
	case err == nil:
		if err = checkAddress(base); err != nil {
			err = warning{err}
		}
	}
	return finding("address", base, err)
}

// addresses reports the accounts that versions before 0.2 treated as the account of another address,
// unless an operator has accepted them.
func addresses(ctx context.Context, d *db.DB) Finding {
	list, err := account.RefoldedAccounts(ctx, d)
	f := Finding{Name: "addresses", Good: err == nil && len(list) == 0, Detail: "every account was verified with the address that it has"}
	if err != nil {
		f.Detail = err.Error()
		return f
	}
	if len(list) == 0 {
		return f
	}
	accounts := make([]string, 0, maxAddresses+1)
	for i, a := range list {
		if i == maxAddresses {
			accounts = append(accounts, fmt.Sprintf("and %d more", len(list)-i))
			break
		}
		text := fmt.Sprintf("%+q was treated as %q", a.Folded, a.Before)
		if a.Memberships > 0 {
			text += ", member of " + count(a.Memberships, "institution")
		}
		if a.Operator {
			text += ", operator"
		}
		accounts = append(accounts, text)
	}
	f.Detail = "before version 0.2, each of these accounts was treated as the account of another address, so it may have rights of the person with that address: " +
		strings.Join(accounts, "; ")
	return f
}

// counts checks that the totals of lists match the certificates.
func counts(ctx context.Context, d *db.DB) Finding {
	wrong, err := search.CountError(ctx, d)
	f := Finding{Name: "counts", Good: err == nil && wrong == 0, Detail: "the totals of lists match the certificates"}
	switch {
	case err != nil:
		f.Detail = err.Error()
	case wrong != 0:
		f.Detail = fmt.Sprintf("the totals of lists differ from the certificates by %d", wrong)
	}
	return f
}

// examineKeys checks that the signing keys of the institutions can be used, that no certificate of
// these keys expires soon, and that the root certificates can be read.
func examineKeys(ctx context.Context, d *db.DB, keys *authority.Authority, now time.Time) (string, error) {
	list, err := account.WithKey(ctx, d)
	if err != nil {
		return "", err
	}
	for _, i := range list {
		signer, err := keys.Signer(ctx, i.UUID)
		if err != nil {
			return "", fmt.Errorf("%s: %w", i.Slug, err)
		}
		if expiry := authority.Expiry(signer.Chain); expiry.Before(now.Add(authority.ExpiresSoon)) {
			return "", fmt.Errorf("%s: the certificate of the key expires on %s", i.Slug, expiry.Format(time.DateOnly))
		}
	}
	if _, err := keys.Roots(ctx); len(list) > 0 && err != nil {
		return "", fmt.Errorf("reading the root certificates: %w", err)
	}
	return fmt.Sprintf("%d, all usable", len(list)), nil
}
