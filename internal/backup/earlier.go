package backup

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/certvault/certvault/internal/keyring"
)

// earlier is an existing backup with the entries of its manifest. An entry needs 56 bytes of memory.
type earlier struct {
	dir     string
	entries []earlierEntry
}

// earlierEntry is an entry of a manifest.
type earlierEntry struct {
	// name is the result of nameDigest.
	name   [16]byte
	size   int64
	sha256 Digest
}

// nameDigest returns the first 16 bytes of the SHA-256 of a name.
func nameDigest(name string) [16]byte {
	sum := sha256.Sum256([]byte(name))
	return [16]byte(sum[:16])
}

// openEarlier reads and verifies the manifest of the backup in dir. It does not read the other
// files. The error is ErrOtherInstallation if the backup belongs to another installation. The other
// errors include those of ReadHeader, ErrWrongKey and ErrDamaged.
func openEarlier(dir string, ring *keyring.Ring, installation string) (_ *earlier, err error) {
	r, err := openManifest(dir, ring)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if r.Header.Installation != installation {
		return nil, fmt.Errorf("%w: %s", ErrOtherInstallation, dir)
	}
	p := &earlier{dir: dir}
	for {
		e, err := r.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if !e.Missing {
			p.entries = append(p.entries, earlierEntry{nameDigest(e.Name), e.Size, e.SHA256})
		}
	}
	slices.SortFunc(p.entries, func(a, b earlierEntry) int { return bytes.Compare(a.name[:], b.name[:]) })
	return p, nil
}

// has reports whether the backup has a file, and returns its size and digest. p may be nil.
func (p *earlier) has(name string) (e earlierEntry, ok bool) {
	if p == nil {
		return e, false
	}
	digest := nameDigest(name)
	i, ok := slices.BinarySearchFunc(p.entries, digest, func(e earlierEntry, digest [16]byte) int { return bytes.Compare(e.name[:], digest[:]) })
	if !ok {
		return e, false
	}
	return p.entries[i], true
}

// link links a file of the earlier backup into the new backup. It returns false if the earlier backup
// lacks the file, if the file has another size than in the manifest, or if it cannot be linked, for
// example because it is on another file system.
func (p *earlier) link(name, to string) (e earlierEntry, linked bool, err error) {
	e, ok := p.has(name)
	if !ok {
		return e, false, nil
	}
	from := filepath.Join(p.dir, filepath.FromSlash(name))
	info, err := os.Lstat(from)
	if err != nil || !info.Mode().IsRegular() || info.Size() != e.size {
		return e, false, nil //nolint:nilerr // the file is then taken from the store
	}
	if err := os.Link(from, to); err != nil {
		return e, false, ignoreLink(err)
	}
	return e, true, nil
}
