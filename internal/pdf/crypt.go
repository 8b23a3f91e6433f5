package pdf

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/md5" //nolint:gosec // required by the standard
	"crypto/rc4" //nolint:gosec // required by the standard
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
)

// Permissions are the flags of /P (7.6.4.2, table 22).
type Permissions uint32

// The flags of Permissions.
const (
	PermitPrint     Permissions = 1 << 2  // print
	PermitModify    Permissions = 1 << 3  // modify the document in ways that no other flag controls
	PermitCopy      Permissions = 1 << 4  // copy text and graphics
	PermitAnnotate  Permissions = 1 << 5  // annotate, fill in forms
	PermitFill      Permissions = 1 << 8  // fill in forms and sign
	PermitAssemble  Permissions = 1 << 10 // insert, rotate and delete pages
	PermitPrintHigh Permissions = 1 << 11 // print in full quality
)

// Encrypted reports whether the file has an encryption dictionary.
func (d *Document) Encrypted() bool { return d.xref.trailer.Has("Encrypt") }

// Permissions returns the permissions of a user who opens the file with the user
// password. Everything is permitted if the file is not encrypted or only embedded
// files are encrypted.
func (d *Document) Permissions() Permissions {
	if d.crypt == nil {
		return ^Permissions(0)
	}
	return d.crypt.permissions
}

// cryptMethod is the algorithm of a crypt filter (7.6.6, table 25).
type cryptMethod int

const (
	cryptIdentity cryptMethod = iota
	cryptRC4
	cryptAESV2
	cryptAESV3
)

// crypt is the standard security handler (7.6.4) of an open document.
type crypt struct {
	key             []byte
	strings         cryptMethod
	streams         cryptMethod
	filters         map[Name]cryptMethod
	encryptMetadata bool
	permissions     Permissions
}

// encryption holds the encryption dictionary (7.6.2, 7.6.4.2) and the first file
// identifier.
type encryption struct {
	v, r            int
	o, u, oe, ue    []byte
	perms           []byte
	p               uint32
	id              []byte
	encryptMetadata bool
}

// startCrypt reads the encryption dictionary and computes the key for an empty user
// password. It returns ErrPassword if the user password is not empty, even if the
// owner password is empty, because viewers then ask for a password. It returns
// ErrEncryption if the encryption is not supported, or the encrypted copy of the
// permissions is missing or does not match.
func (d *Document) startCrypt() error {
	value := d.xref.trailer.Get("Encrypt")
	if value == nil || d.crypt != nil {
		return nil
	}
	dict := d.Dict(value)
	if dict == nil {
		if !d.repaired {
			return fmt.Errorf("%w: the encryption dictionary is missing", ErrDamaged)
		}
		// Viewers treat the file as unencrypted, and so does this package.
		d.xref.trailer = d.xref.trailer.Clone()
		d.xref.trailer.Delete("Encrypt")
		return nil
	}
	if name := d.Name(dict.Get("Filter")); name != "Standard" {
		return fmt.Errorf("%w: security handler %q", ErrEncryption, name)
	}
	e := encryption{encryptMetadata: d.Resolve(dict.Get("EncryptMetadata")) != Boolean(false)}
	e.v, _ = d.Int(dict.Get("V"))
	e.r, _ = d.Int(dict.Get("R"))
	p, _ := d.Int(dict.Get("P"))
	e.p = uint32(p) //nolint:gosec // 32 bits, signed in some files and unsigned in others
	for key, to := range map[Name]*[]byte{"O": &e.o, "U": &e.u, "OE": &e.oe, "UE": &e.ue, "Perms": &e.perms} {
		s, _ := d.Resolve(dict.Get(key)).(String)
		*to = []byte(s)
	}
	if ids := d.Array(d.xref.trailer.Get("ID")); len(ids) > 0 {
		s, _ := d.Resolve(ids[0]).(String)
		e.id = []byte(s)
	}
	legacy := e.v >= 1 && e.v <= 4 && e.r >= 2 && e.r <= 4
	if !legacy && (e.v != 5 || e.r < 5 || e.r > 6) {
		return fmt.Errorf("%w: version %d, revision %d", ErrEncryption, e.v, e.r)
	}
	c := &crypt{strings: cryptRC4, streams: cryptRC4, encryptMetadata: true, permissions: Permissions(e.p)}
	if e.v >= 4 {
		c.encryptMetadata = e.encryptMetadata
		if err := d.readCryptFilters(c, dict, e.v); err != nil {
			return err
		}
	}
	var err error
	if legacy {
		c.key, err = e.legacyKey(d.keyLengths(dict, e.v))
	} else {
		c.key, err = e.aes256Key()
	}
	if err != nil {
		return err
	}
	if n := len(c.key); n != 16 && slices.Contains(slices.Collect(maps.Values(c.filters)), cryptAESV2) { // ISO 32000-2, table 25
		return fmt.Errorf("%w: AESV2 with a key of %d bytes", ErrEncryption, n)
	}
	if c.strings == cryptIdentity && c.streams == cryptIdentity {
		// Only embedded files are encrypted. This package never reads embedded files,
		// and new objects are written unencrypted. The password is checked in this case
		// too, because some readers do not open the document without it.
		return nil
	}
	d.clearCaches() // the objects in the caches were read without the key
	d.crypt = c
	if ref, ok := value.(Ref); ok {
		d.cryptRef = ref.Number
	}
	return nil
}

// readCryptFilters reads the crypt filters (7.6.6).
func (d *Document) readCryptFilters(c *crypt, dict *Dict, v int) error {
	c.filters = map[Name]cryptMethod{"Identity": cryptIdentity}
	for name, value := range d.Dict(dict.Get("CF")).All() {
		if len(c.filters) > 64 {
			return fmt.Errorf("%w: too many crypt filters", ErrLimit)
		}
		switch method := d.Name(d.Dict(value).Get("CFM")); {
		case method == "V2" && v < 5:
			c.filters[name] = cryptRC4
		case method == "AESV2" && v < 5:
			c.filters[name] = cryptAESV2
		case method == "AESV3" && v == 5:
			c.filters[name] = cryptAESV3
		case method == "None", method == "":
			c.filters[name] = cryptIdentity
		default:
			return fmt.Errorf("%w: crypt filter method %q", ErrEncryption, method)
		}
	}
	c.streams = c.filters[d.Name(dict.Get("StmF"))] // default: Identity
	c.strings = c.filters[d.Name(dict.Get("StrF"))]
	return nil
}

// keyLengths returns the key lengths to try, in bytes: the length that version
// v prescribes, the length in the dictionary, and then 5 and 16, because some
// writers state a wrong length.
func (d *Document) keyLengths(dict *Dict, v int) []int {
	var lengths []int
	add := func(n int) {
		if n >= 5 && n <= 16 && !slices.Contains(lengths, n) {
			lengths = append(lengths, n)
		}
	}
	if v == 1 {
		add(5)
	}
	if v == 4 {
		add(16)
	}
	declared, _ := d.Int(dict.Get("Length"))
	if declared >= 40 {
		declared /= 8
	}
	add(declared)
	add(5)
	add(16)
	return lengths
}

// passwordPad is the padding of passwords to 32 bytes (algorithm 2).
var passwordPad = []byte("\x28\xBF\x4E\x5E\x4E\x75\x8A\x41\x64\x00\x4E\x56\xFF\xFA\x01\x08\x2E\x2E\x00\xB6\xD0\x68\x3E\x80\x2F\x0C\xA9\xFE\x64\x53\x69\x7A")

// legacyKey computes the key of revisions 2 to 4 with an empty user password.
func (e *encryption) legacyKey(lengths []int) ([]byte, error) {
	if len(e.o) < 32 || len(e.u) < 16 {
		return nil, fmt.Errorf("%w: invalid encryption dictionary", ErrDamaged)
	}
	for _, n := range lengths {
		if key, ok := e.userKey(passwordPad, n); ok {
			return key, nil
		}
	}
	return nil, ErrPassword
}

// userKey computes the key of n bytes for a padded user password (algorithm 2)
// and reports whether the password is correct (algorithms 4 to 6).
func (e *encryption) userKey(password []byte, n int) ([]byte, bool) {
	h := md5.New() //nolint:gosec // required by the standard
	h.Write(password)
	h.Write(e.o[:32])
	h.Write(binary.LittleEndian.AppendUint32(nil, e.p))
	h.Write(e.id)
	if e.r >= 4 && !e.encryptMetadata {
		h.Write([]byte{0xff, 0xff, 0xff, 0xff})
	}
	key := h.Sum(nil)
	if e.r >= 3 {
		for range 50 {
			sum := md5.Sum(key[:n]) //nolint:gosec // required by the standard
			copy(key, sum[:])
		}
	}
	key = key[:n]
	if e.r == 2 {
		check := bytes.Clone(passwordPad)
		rc4XOR(key, check)
		return key, bytes.Equal(check[:16], e.u[:16])
	}
	h.Reset()
	h.Write(passwordPad)
	h.Write(e.id)
	check := h.Sum(nil)
	for i := range 20 {
		rc4XOR(xorKey(key, i), check)
	}
	return key, bytes.Equal(check, e.u[:16])
}

// xorKey returns the key with each byte XORed with i.
func xorKey(key []byte, i int) []byte {
	out := make([]byte, len(key))
	for j, c := range key {
		out[j] = c ^ byte(i) //nolint:gosec // below 20
	}
	return out
}

// rc4XOR applies RC4 to data in place.
func rc4XOR(key, data []byte) {
	if stream, err := rc4.NewCipher(key); err == nil { //nolint:gosec // required by the standard
		stream.XORKeyStream(data, data)
	}
}

// aes256Key computes the key of revisions 5 and 6 with an empty user password
// (algorithm 2.A).
func (e *encryption) aes256Key() ([]byte, error) {
	if len(e.u) < 48 || len(e.o) < 48 || len(e.ue) < 32 || len(e.oe) < 32 {
		return nil, fmt.Errorf("%w: invalid encryption dictionary", ErrDamaged)
	}
	hash := hash2B
	if e.r == 5 {
		hash = func(salt []byte) []byte {
			sum := sha256.Sum256(salt)
			return sum[:]
		}
	}
	if !bytes.Equal(hash(e.u[32:40]), e.u[:32]) {
		return nil, ErrPassword
	}
	block, err := aes.NewCipher(hash(e.u[40:48]))
	if err != nil {
		return nil, fmt.Errorf("unwrapping the file encryption key: %w", err)
	}
	key := make([]byte, 32)
	cipher.NewCBCDecrypter(block, make([]byte, aes.BlockSize)).CryptBlocks(key, e.ue[:32])
	return key, e.checkPermissions(key)
}

// checkPermissions compares /Perms, the encrypted copy of the permissions, with /P and
// /EncryptMetadata (algorithm 13). Viewers such as PDFium do not open a file whose
// /Perms is missing, invalid or different. /Perms may say that metadata is not
// encrypted even if /EncryptMetadata is true.
func (e *encryption) checkPermissions(key []byte) error {
	block, err := aes.NewCipher(key)
	if err != nil {
		return fmt.Errorf("decrypting the permissions: %w", err)
	}
	if len(e.perms) < aes.BlockSize {
		return fmt.Errorf("%w: /Perms is missing", ErrEncryption)
	}
	perms := make([]byte, aes.BlockSize)
	block.Decrypt(perms, e.perms[:aes.BlockSize])
	if string(perms[9:12]) != "adb" || binary.LittleEndian.Uint32(perms) != e.p || perms[8] != 'F' && !e.encryptMetadata {
		return fmt.Errorf("%w: /Perms does not match the encryption dictionary", ErrEncryption)
	}
	return nil
}

// hash2B computes algorithm 2.B for an empty user password.
func hash2B(salt []byte) []byte {
	sum := sha256.Sum256(salt)
	k := sum[:]
	for rounds := 1; ; rounds++ {
		round := bytes.Repeat(k, 64)
		block, err := aes.NewCipher(k[:16])
		if err != nil { // a key of 16 bytes is always valid
			return nil
		}
		cipher.NewCBCEncrypter(block, k[16:32]).CryptBlocks(round, round)
		remainder := 0
		for _, c := range round[:16] {
			remainder += int(c) // a number and the sum of its bytes have the same remainder modulo 3
		}
		switch remainder % 3 {
		case 0:
			sum := sha256.Sum256(round)
			k = sum[:]
		case 1:
			sum := sha512.Sum384(round)
			k = sum[:]
		default:
			sum := sha512.Sum512(round)
			k = sum[:]
		}
		if rounds >= 64 && int(round[len(round)-1]) <= rounds-32 {
			return k[:32]
		}
	}
}
