package backup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/keyring"
)

// choice is the backup to restore.
type choice struct {
	dir    string
	header Header
	// ignored are the folders of backups that were not considered, because their date is in the future.
	ignored []string
}

// choose returns the backup to restore: dir itself, or the newest complete backup in dir. It considers
// only backups that are not newer than at, unless at is the zero time, and those with a date in the future
// only if there is no other.
func choose(dir string, at, now time.Time) (choice, error) {
	fits := func(h Header) bool { return at.IsZero() || !h.CreatedAt.After(at) }
	h, err := ReadHeader(dir)
	if err == nil && !fits(h) {
		return choice{}, fmt.Errorf("%w that is not newer than %s: %s is from %s", ErrNoBackup, at.Format(time.RFC3339), dir, h.CreatedAt.Format(time.RFC3339))
	}
	if !errors.Is(err, ErrNoBackup) {
		return choice{dir: dir, header: h}, err
	}
	list, listErr := listScheduled(dir, now)
	if errors.Is(listErr, fs.ErrNotExist) {
		return choice{}, fmt.Errorf("the folder %s does not exist", dir)
	}
	if listErr != nil {
		return choice{}, listErr
	}
	for i, s := range slices.Backward(list) {
		if s.partial() {
			continue
		}
		if s.err != nil {
			return choice{}, s.err
		}
		if !fits(s.header) {
			continue
		}
		c := choice{dir: s.dir, header: s.header}
		if s.future {
			return c, nil
		}
		for j := range list[:i] {
			if list[j].future && list[j].complete() {
				c.ignored = append(c.ignored, list[j].dir)
			}
		}
		return c, nil
	}
	if len(list) == 0 {
		return choice{}, err
	}
	if at.IsZero() {
		return choice{}, fmt.Errorf("%w that is complete: %s", ErrNoBackup, dir)
	}
	return choice{}, fmt.Errorf("%w that is complete and not newer than %s: %s", ErrNoBackup, at.Format(time.RFC3339), dir)
}

var (
	errNoMasterKey = errors.New("the backup contains no master key; set --master-key-file to the file with the master key of the vault")
	errNoIdentity  = errors.New("the backup contains no age identity, which decrypts the signing keys; " +
		"set --key-identity-file to the file with the age identity of the vault")
	errOtherIdentity = errors.New("the file of --key-identity-file is not the age identity of the backup")
	errIdentityForm  = errors.New("only one of the age identity of the backup and the file of --key-identity-file is protected by a passphrase, " +
		"so the two cannot be compared; set --key-identity-file to a copy of")
)

// backupKeys are the secrets with which a backup is restored.
type backupKeys struct {
	dir  string
	ring *keyring.Ring
	// identity is the content of the file with the age identity that the options contain, or nil if
	// the vault will use the identity of the backup.
	identity []byte
	// skip has the names of the files of the backup that the vault does not need, because the options
	// contain the secrets.
	skip map[string]bool
}

// openBackupKeys returns the secrets for a backup. The secrets of the options take precedence over
// those of the backup.
func openBackupKeys(dir string, o *RestoreOptions) (*backupKeys, error) {
	k := &backupKeys{dir: dir, ring: o.Keyring, identity: o.Identity, skip: map[string]bool{}}
	if k.ring != nil {
		k.skip[masterKeyName] = true
	} else {
		var err error
		k.ring, err = keyring.OpenExisting(filepath.Join(dir, filepath.FromSlash(masterKeyName)))
		if errors.Is(err, keyring.ErrMissing) {
			return nil, errNoMasterKey
		}
		if err != nil {
			return nil, err
		}
	}
	if k.identity != nil {
		k.skip[identityName], k.skip[protectedIdentityName] = true, true
	}
	return k, nil
}

// check checks that the backup contains the secrets that the options lack. If both contain an age
// identity, check also checks that the two are the same.
func (k *backupKeys) check(v inventory) error {
	if k.identity == nil && !v.names[identityName] && !v.names[protectedIdentityName] {
		return errNoIdentity
	}
	if !k.skip[masterKeyName] && !v.names[masterKeyName] {
		// The folder contains a master key that the manifest does not name.
		return errNoMasterKey
	}
	if k.identity == nil {
		return nil
	}
	for _, name := range []string{identityName, protectedIdentityName} {
		if !v.names[name] {
			continue
		}
		stored, err := os.ReadFile(filepath.Join(k.dir, filepath.FromSlash(name)))
		if err != nil {
			return fmt.Errorf("reading the age identity of the backup: %w", err)
		}
		if bytes.Equal(bytes.TrimSpace(stored), bytes.TrimSpace(k.identity)) {
			continue
		}
		if isPlain := bytes.Contains(k.identity, []byte("AGE-SECRET-KEY-")); isPlain != (name == identityName) {
			return fmt.Errorf("%w %s", errIdentityForm, filepath.Join(k.dir, filepath.FromSlash(name)))
		}
		return errOtherIdentity
	}
	return nil
}

// isStored reports whether a name of a backup belongs to the file store.
func isStored(name string) bool { return strings.HasPrefix(name, filesDir+"/") }
