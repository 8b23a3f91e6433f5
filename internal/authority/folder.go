package authority

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/certvault/certvault/internal/db"
)

// Earlier versions stored each key as a file: root/0001.json for the first root, and
// institution/UUID/0001.json for the first key of an institution. ImportFiles imports the files into
// the database and then moves them to importedFolder.
const (
	rootFolder        = "root"
	institutionFolder = "institution"
	importedFolder    = "imported"
	extension         = ".json"
)

// importAttempts is the maximum number of times that the files are read if another process moves
// some of them in the meantime.
const importAttempts = 5

// keyFile is a key file of an earlier version.
type keyFile struct {
	keyID

	path  string // relative to the folder
	entry entry
	at    time.Time
}

// errOtherKeys means that a key file differs from the key of the database.
var errOtherKeys = errors.New("the database has another key: the folder belongs to another installation; " +
	"set --data to the data folder that belongs to this database, or move the key files away")

// ImportFiles imports the key files of earlier versions into the database, in one transaction, and
// returns the number of keys that the database did not have. It then moves the files. left is the
// error if files could not be moved; the next call tries to move them again. Several processes may call
// ImportFiles at the same time.
func (a *Authority) ImportFiles(ctx context.Context) (n int, left, err error) {
	var files []keyFile
	for range importAttempts {
		if files, err = a.keyFiles(); !isMissing(err) {
			break
		}
	}
	if err != nil || len(files) == 0 {
		return 0, nil, err
	}
	err = a.db.Tx(ctx, func(tx *db.Tx) error {
		n = 0
		for _, f := range files {
			inserted, err := insertTx(ctx, tx, f.keyID, f.entry, f.at)
			if err != nil {
				return a.fileError(f, err)
			}
			if inserted {
				n++
				continue
			}
			if err := sameTx(ctx, tx, f); err != nil {
				return a.fileError(f, err)
			}
		}
		return nil
	})
	if err != nil {
		return 0, nil, storage(fmt.Errorf("importing the signing keys: %w", err))
	}
	return n, a.moveFiles(files), nil
}

// fileError adds the name of a file to an error.
func (a *Authority) fileError(f keyFile, err error) error {
	name := filepath.Join(a.options.Folder, f.path)
	if fault, ok := errors.AsType[*Fault](err); ok {
		return &Fault{Code: fault.Code, Err: fmt.Errorf("%s: %w", name, fault.Err)}
	}
	return fmt.Errorf("%s: %w", name, err)
}

// sameTx checks that the database has the key of a file.
func sameTx(ctx context.Context, tx *db.Tx, f keyFile) error {
	var kind Kind
	var certificates, key string
	err := tx.QueryRowContext(ctx, `SELECT kind, certificates, private_key FROM signing_keys WHERE holder = $1 AND number = $2`, f.holder, f.number).
		Scan(&kind, &certificates, &key)
	if err != nil {
		return fmt.Errorf("reading a signing key: %w", err)
	}
	if kind != f.entry.Kind || certificates != f.entry.Certificates || key != f.entry.Key {
		return &Fault{Code: CodeRefused, Err: errOtherKeys}
	}
	return nil
}

// checkImported returns an error if key files of a holder are not imported yet. It is called before
// the first key of a holder is added, because a new key would prevent the import of the files.
func (a *Authority) checkImported(holder string) error {
	folder := holderFolder(holder)
	numbers, err := generations(filepath.Join(a.options.Folder, folder))
	if err != nil || len(numbers) == 0 {
		return err
	}
	return &Fault{Code: CodeMissing, Err: fmt.Errorf("the key files in %s are not imported yet: run certvault migrate", //nolint:err113 // callers distinguish it by its code
		filepath.Join(a.options.Folder, folder))}
}

func holderFolder(holder string) string {
	if holder == rootHolder {
		return rootFolder
	}
	return filepath.Join(institutionFolder, holder)
}

// keyFiles reads all key files, sorted by holder and number. The error is a *Fault with the code
// CodeMissing if a file disappeared in the meantime.
func (a *Authority) keyFiles() ([]keyFile, error) {
	holders := []string{rootHolder}
	entries, err := os.ReadDir(filepath.Join(a.options.Folder, institutionFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, &Fault{Code: CodeStorage, Err: fmt.Errorf("listing key files: %w", err)}
	}
	for _, e := range entries {
		if checkID(e.Name()) == nil {
			holders = append(holders, e.Name())
		}
	}
	var files []keyFile
	for _, holder := range holders {
		folder := holderFolder(holder)
		numbers, err := generations(filepath.Join(a.options.Folder, folder))
		if err != nil {
			return nil, err
		}
		for _, number := range numbers {
			f, err := a.readKeyFile(keyID{holder, number}, filepath.Join(folder, fileName(number)))
			if err != nil {
				return nil, err
			}
			files = append(files, f)
		}
	}
	slices.SortFunc(files, func(x, y keyFile) int {
		return cmp.Or(cmp.Compare(x.holder, y.holder), cmp.Compare(x.number, y.number))
	})
	return files, nil
}

func (a *Authority) readKeyFile(id keyID, path string) (keyFile, error) {
	f := keyFile{keyID: id, path: path}
	text, err := readFile(filepath.Join(a.options.Folder, path))
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal(text, &f.entry); err != nil {
		return f, &Fault{Code: CodeBroken, Err: a.fileError(f, err)}
	}
	if _, err := parseChain([]byte(f.entry.Certificates)); err != nil {
		return f, &Fault{Code: CodeBroken, Err: a.fileError(f, err)}
	}
	f.at = a.options.Now()
	if info, err := os.Stat(filepath.Join(a.options.Folder, path)); err == nil {
		f.at = info.ModTime()
	}
	return f, nil
}

func fileName(number int) string { return fmt.Sprintf("%04d%s", number, extension) }

// generations returns the sorted numbers of the key files in a folder. It returns nil if the folder
// does not exist.
func generations(path string) ([]int, error) {
	list, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &Fault{Code: CodeStorage, Err: fmt.Errorf("listing key files: %w", err)}
	}
	var numbers []int
	for _, e := range list {
		digits, ok := strings.CutSuffix(e.Name(), extension)
		if n, err := strconv.Atoi(digits); ok && err == nil && n > 0 && fileName(n) == e.Name() {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// moveFiles moves imported files to importedFolder, and removes folders that are then empty.
// Another process may move the same files.
func (a *Authority) moveFiles(files []keyFile) error {
	var errs []error
	for _, f := range files {
		to := filepath.Join(a.options.Folder, importedFolder, f.path)
		if err := makeFolder(filepath.Dir(to)); err != nil {
			return fmt.Errorf("moving imported key files: %w", err)
		}
		if err := os.Rename(filepath.Join(a.options.Folder, f.path), to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("moving imported key files: %w", err))
		}
	}
	for _, f := range files {
		// Rmdir fails if the folder has other files.
		_ = syscall.Rmdir(filepath.Join(a.options.Folder, filepath.Dir(f.path)))
	}
	_ = syscall.Rmdir(filepath.Join(a.options.Folder, institutionFolder))
	return errors.Join(errs...)
}
