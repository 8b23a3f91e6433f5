package blob

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
)

const (
	// InstallationFile is the name of the file in a store that identifies the installation.
	InstallationFile = "certvault.json"
	// oldInstallationFile is the name of this file in development versions. That file contained only the
	// id.
	oldInstallationFile = "installation"
	// installationFormat is the version of the format of InstallationFile.
	installationFormat = 1
)

// ErrNoInstallation means that a store does not have the id of an installation.
var ErrNoInstallation = errors.New("the file store has no installation id")

// Installation identifies the installation to which a store belongs. The database of the
// installation has the same id. An Installation contains no secrets.
type Installation struct {
	ID        string    `json:"installation"`
	CreatedAt time.Time `json:"created_at,omitzero"`
	Format    int       `json:"format"`
}

// NewInstallation returns an installation with a new id.
func NewInstallation(now time.Time) Installation {
	return Installation{ID: uuid.NewString(), CreatedAt: now.UTC().Truncate(time.Second), Format: installationFormat}
}

// InstallationPath returns the path of the file with the installation.
func (f *Folder) InstallationPath() string { return filepath.Join(f.root, InstallationFile) }

// Installation returns the installation of the store, and changes nothing. The error is
// ErrNoInstallation if the store, or the file in it, does not exist.
func (f *Folder) Installation(context.Context) (Installation, error) {
	file := f.InstallationPath()
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return f.oldInstallation()
	}
	if err != nil {
		return Installation{}, fmt.Errorf("reading the installation id: %w", err)
	}
	return parseInstallation(file, text)
}

// parseInstallation parses the content of a file with an installation. Errors contain the name of the
// file.
func parseInstallation(file string, text []byte) (i Installation, err error) {
	if err := json.Unmarshal(text, &i); err != nil {
		return Installation{}, fmt.Errorf("%s is damaged; restore it from a backup: %w", file, err)
	}
	if i.Format > installationFormat {
		return Installation{}, fmt.Errorf("%s has format %d, and this version of certvault supports format %d: use a newer version", file, i.Format, installationFormat)
	}
	return i, checkID(file, i.ID)
}

// Encode returns the content of the file with the installation.
func (i Installation) Encode() ([]byte, error) {
	text, err := json.Marshal(i)
	return append(text, '\n'), err
}

// oldInstallation returns the installation of a store of a development version.
func (f *Folder) oldInstallation() (Installation, error) {
	file := filepath.Join(f.root, oldInstallationFile)
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return Installation{}, fmt.Errorf("%w: %s does not exist", ErrNoInstallation, f.InstallationPath())
	}
	if err != nil {
		return Installation{}, fmt.Errorf("reading the installation id: %w", err)
	}
	i := Installation{ID: strings.TrimSpace(string(text)), Format: installationFormat}
	return i, checkID(file, i.ID)
}

func checkID(file, id string) error {
	if _, err := uuid.Parse(id); err != nil {
		return fmt.Errorf("%s is damaged, because its installation id is not a UUID; restore it from a backup: %w", file, err)
	}
	return nil
}

// SetInstallation stores the installation durably, unless the store has one. It replaces the file
// of a development version.
func (f *Folder) SetInstallation(_ context.Context, i Installation) error {
	if err := f.writeInstallation(i); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("storing the installation id: %w", err)
	}
	if err := ignoreMissing(os.Remove(filepath.Join(f.root, oldInstallationFile))); err != nil {
		return fmt.Errorf("removing the old installation id: %w", err)
	}
	return nil
}

// writeInstallation writes a temporary file and links it to its final name, so that other processes
// read a complete file. The error is fs.ErrExist if the file exists.
func (f *Folder) writeInstallation(i Installation) error {
	if _, err := os.Lstat(f.InstallationPath()); err == nil {
		return fs.ErrExist
	}
	text, err := i.Encode()
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Join(f.root, incomingDir), "")
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Link(file.Name(), f.InstallationPath())
	}
	if err == nil {
		err = SyncDir(f.root)
	}
	return errors.Join(err, os.Remove(file.Name()))
}
