package pdf

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/md5"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The encryption methods of fixtures.
const (
	encryptRC440 = iota
	encryptRC4128
	encryptAES128
	encryptAES256R5
	encryptAES256
	encryptAES40 // invalid: AES needs a longer key
)

// pad returns a password padded to 32 bytes (algorithm 2).
func pad(password string) []byte { return append([]byte(password), passwordPad...)[:32] }

// encrypted returns an encrypted document of one page.
func encrypted(tb testing.TB, how int, user, owner string) []byte {
	tb.Helper()
	e := encryption{p: 0xfffff0c4, id: []byte("0123456789abcdef"), encryptMetadata: true}
	c := &crypt{encryptMetadata: true}
	var dict string
	switch how {
	case encryptRC440:
		e.v, e.r, c.strings, dict = 1, 2, cryptRC4, ""
	case encryptRC4128:
		e.v, e.r, c.strings, dict = 2, 3, cryptRC4, "/Length 128"
	case encryptAES128:
		e.v, e.r, c.strings = 4, 4, cryptAESV2
		dict = "/Length 128/CF<</StdCF<</CFM/AESV2/Length 16>>>>/StmF/StdCF/StrF/StdCF"
	case encryptAES40:
		e.v, e.r, c.strings = 4, 2, cryptAESV2
		dict = "/Length 40/CF<</StdCF<</CFM/AESV2/Length 5>>>>/StmF/StdCF/StrF/StdCF"
	case encryptAES256R5, encryptAES256:
		e.v, e.r, c.strings = 5, 5+how-encryptAES256R5, cryptAESV3
		dict = "/Length 256/CF<</StdCF<</CFM/AESV3/Length 32>>>>/StmF/StdCF/StrF/StdCF"
	}
	c.streams = c.strings
	if e.v < 5 {
		c.key = legacyFixture(&e, user, owner)
	} else {
		c.key = aes256Fixture(tb, &e, user, owner)
		dict += fmt.Sprintf("/OE<%x>/UE<%x>/Perms<%x>", e.oe, e.ue, permsFixture(tb, &e, c.key))
	}
	var out bytes.Buffer
	s := newSerializer(&out, 0, &Document{crypt: c})
	s.buf = append(s.buf, "%PDF-1.7\n"...)
	s.indirect(Ref{Number: 1}, NewDict(Entry{"Type", Name("Catalog")}, Entry{"Pages", Ref{Number: 2}}, Entry{"Lang", String("en")}))
	s.indirect(Ref{Number: 2}, NewDict(Entry{"Type", Name("Pages")}, Entry{"Kids", Array{Ref{Number: 3}}}, Entry{"Count", Integer(1)}))
	s.indirect(Ref{Number: 3}, NewDict(Entry{"Type", Name("Page")}, Entry{"Parent", Ref{Number: 2}},
		Entry{"MediaBox", Rectangle{0, 0, 200, 100}.Array()}, Entry{"Contents", Ref{Number: 4}}))
	s.indirect(Ref{Number: 4}, NewStream(nil, []byte("0 0 10 10 re f")))
	entries := []numberedEntry{{0, entry{generation: 65535}}}
	for _, w := range append(s.entries, writtenEntry{Ref{Number: 5}, s.offset()}) {
		entries = append(entries, numberedEntry{w.ref.Number, entry{kind: entryInFile, offset: w.offset}})
	}
	s.buf = fmt.Appendf(s.buf, "5 0 obj\n<</Filter/Standard/V %d/R %d/P %d/O<%x>/U<%x>%s>>\nendobj\n", e.v, e.r, int32(e.p), e.o, e.u, dict)
	s.writeXref(entries, NewDict(Entry{"Root", Ref{Number: 1}}, Entry{"Encrypt", Ref{Number: 5}},
		Entry{"ID", Array{String(e.id), String(e.id)}}), 0, 6, Ref{})
	if s.err != nil {
		tb.Fatal(s.err)
	}
	return out.Bytes()
}

// legacyFixture computes /O and /U (algorithms 3 to 5) and returns the key.
func legacyFixture(e *encryption, user, owner string) []byte {
	n := 16
	if e.r == 2 {
		n = 5
	}
	sum := md5.Sum(pad(owner))
	rounds := 0
	if e.r >= 3 {
		rounds = 50
	}
	for range rounds {
		sum = md5.Sum(sum[:n])
	}
	e.o, e.u = pad(user), make([]byte, 32)
	for i := range 20 {
		if i == 0 || e.r >= 3 {
			rc4XOR(xorKey(sum[:n], i), e.o)
		}
	}
	key, _ := e.userKey(pad(user), n)
	if e.r == 2 {
		copy(e.u, passwordPad)
		rc4XOR(key, e.u)
		return key
	}
	check := md5.Sum(append(bytes.Clone(passwordPad), e.id...))
	for i := range 20 {
		rc4XOR(xorKey(key, i), check[:])
	}
	copy(e.u, check[:])
	return key
}

// aes256Fixture computes /O, /U, /OE and /UE (algorithms 8 and 9) and returns
// the key. In revision 6, only an empty user password gets a valid hash, because
// hash2B supports no other password.
func aes256Fixture(tb testing.TB, e *encryption, user, owner string) []byte {
	tb.Helper()
	key := sha256.Sum256([]byte("a key for the fixture"))
	wrap := func(password string, salts string, u []byte) (hash, wrapped []byte) {
		digest := func(salt string) []byte {
			if e.r == 5 || password != "" || u != nil {
				sum := sha256.Sum256([]byte(password + salt + string(u)))
				return sum[:]
			}
			return hash2B([]byte(salt))
		}
		block, err := aes.NewCipher(digest(salts[8:]))
		if err != nil {
			tb.Fatal(err)
		}
		wrapped = make([]byte, 32)
		cipher.NewCBCEncrypter(block, make([]byte, 16)).CryptBlocks(wrapped, key[:])
		return append(digest(salts[:8]), salts...), wrapped
	}
	e.u, e.ue = wrap(user, "saltsaltkeysaltk", nil)
	e.o, e.oe = wrap(owner, "othersalotherkey", e.u)
	return key[:]
}

// permsFixture computes /Perms (algorithm 10).
func permsFixture(tb testing.TB, e *encryption, key []byte) []byte {
	tb.Helper()
	block, err := aes.NewCipher(key)
	if err != nil {
		tb.Fatal(err)
	}
	perms := binary.LittleEndian.AppendUint32(nil, e.p)
	perms = append(perms, "\xff\xff\xff\xffTadb0000"...)
	block.Encrypt(perms, perms)
	return perms
}

// TestAESV2KeyLength checks that a key that is too short for AES is refused.
func TestAESV2KeyLength(t *testing.T) {
	t.Parallel()
	file := encrypted(t, encryptAES40, "", "owner")
	if _, err := Open(bytes.NewReader(file), int64(len(file))); !errors.Is(err, ErrEncryption) {
		t.Errorf("Open: error = %v, want ErrEncryption", err)
	}
}

func TestEncrypted(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]int{
		"RC4 40": encryptRC440, "RC4 128": encryptRC4128, "AES-128": encryptAES128, "AES-256 R5": encryptAES256R5, "AES-256 R6": encryptAES256,
	} {
		for _, password := range []struct{ user, owner string }{{"", "owner"}, {"user", ""}, {"user", "owner"}} {
			t.Run(name+" "+password.user+" "+password.owner, func(t *testing.T) {
				t.Parallel()
				file := encrypted(t, how, password.user, password.owner)
				if password.user != "" {
					if _, err := Open(bytes.NewReader(file), int64(len(file))); !errors.Is(err, ErrPassword) {
						t.Errorf("Open returned %v, want ErrPassword", err)
					}
					return
				}
				d := open(t, file)
				if got, want := content(t, d, firstPage(t, d)), "0 0 10 10 re f\n"; got != want {
					t.Errorf("content = %q, want %q", got, want)
				}
				if catalog, _ := d.Catalog(); catalog.Get("Lang") != String("en") {
					t.Errorf("/Lang = %q, want \"en\"", catalog.Get("Lang"))
				}
				if got := d.Permissions()&PermitModify != 0; got || !d.Encrypted() {
					t.Errorf("PermitModify = %v, Encrypted = %v, want false and true", got, d.Encrypted())
				}
				u := d.Update()
				ref := u.Add(NewDict(Entry{"S", String("a secret")}, Entry{"T", Array{String("another")}}))
				data := u.Add(NewStream(nil, bytes.Repeat([]byte("long and plain "), 700)))
				tail, err := u.Bytes()
				if err != nil {
					t.Fatal(err)
				}
				for _, plain := range []string{"secret", "another", "plain"} {
					if bytes.Contains(tail, []byte(plain)) {
						t.Errorf("the tail contains %q unencrypted", plain)
					}
				}
				d = open(t, append(file, tail...))
				if dict := d.Dict(ref); dict.Get("S") != String("a secret") || d.Array(dict.Get("T"))[0] != String("another") {
					t.Errorf("the added dictionary = %v, want decrypted strings", dict)
				}
				s, ok := d.Resolve(data).(*Stream)
				if !ok {
					t.Fatal("the added object is not a stream")
				}
				if got, err := d.decodeAll(s); err != nil || len(got) != 10_500 {
					t.Errorf("the stream has %d bytes (error %v), want 10500", len(got), err)
				}
			})
		}
	}
}

// qpdf encrypts the files and checks the stamped files.
func TestEncryptedByQPDF(t *testing.T) {
	t.Parallel()
	qpdf := tool(t, "qpdf")
	plain := filepath.Join(t.TempDir(), "plain.pdf")
	if err := os.WriteFile(plain, benchFile(t, 2, 100, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{
		"40", "128 --use-aes=n", "128 --use-aes=y", "128 --use-aes=y --cleartext-metadata", "128 --use-aes=n --force-V4",
		"256 --allow-insecure", "256 --allow-insecure --force-R5", "256 --allow-insecure --cleartext-metadata",
	} {
		for _, passwords := range [][]string{{"", "owner"}, {"user", ""}, {"user", "owner"}} {
			for _, streams := range []string{"disable", "generate"} {
				t.Run(strings.Join(passwords, "-")+" "+args+" "+streams, func(t *testing.T) {
					t.Parallel()
					path := filepath.Join(t.TempDir(), "encrypted.pdf")
					command := []string{"--allow-weak-crypto", "--object-streams=" + streams, "--encrypt", passwords[0], passwords[1]}
					command = append(command, strings.Fields(args)...)
					if out, err := exec.Command(qpdf, append(command, "--", plain, path)...).CombinedOutput(); err != nil { //nolint:noctx // a fixture
						t.Fatalf("encrypting with qpdf: %v: %s", err, out)
					}
					file, err := os.ReadFile(path)
					if err != nil {
						t.Fatal(err)
					}
					_, err = Open(bytes.NewReader(file), int64(len(file)))
					// Viewers ask for the user password even if the owner
					// password is empty.
					needsPassword := passwords[0] != ""
					if errors.Is(err, ErrPassword) != needsPassword {
						t.Fatalf("Open returned %v, want ErrPassword = %v", err, needsPassword)
					}
					if !needsPassword {
						stamped(t, file)
					}
				})
			}
		}
	}
}

// New metadata is not encrypted if the metadata of the file is not encrypted.
func TestCleartextMetadata(t *testing.T) {
	t.Parallel()
	file := encrypted(t, encryptAES128, "", "owner")
	d := open(t, file)
	d.crypt.encryptMetadata = false
	u := d.Update()
	u.Add(NewRawStream(NewDict(Entry{"Type", Name("Metadata")}, Entry{"Subtype", Name("XML")}), []byte("<x:xmpmeta/>")))
	tail, err := u.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(tail, []byte("<x:xmpmeta/>")) || !bytes.Contains(tail, []byte("/Crypt")) {
		t.Errorf("tail = %q, want plain metadata with a Crypt filter", tail)
	}
}

// Open accepts a file with a wrong /Length in the encryption dictionary.
func TestEncryptionLength(t *testing.T) {
	t.Parallel()
	file := encrypted(t, encryptRC4128, "", "owner")
	for _, length := range []string{"/Length 040", "/Length 016", "/Length  -1", "/Length 999"} {
		d := open(t, replaceOnce(t, file, "/Length 128", length))
		if got, want := content(t, d, firstPage(t, d)), "0 0 10 10 re f\n"; got != want {
			t.Errorf("%s: content = %q, want %q", length, got, want)
		}
	}
}

// Open refuses a file if its encrypted permissions are missing, or do not match /P
// or /EncryptMetadata.
func TestChangedPermissions(t *testing.T) {
	t.Parallel()
	for _, how := range []int{encryptAES256R5, encryptAES256} {
		file := encrypted(t, how, "", "owner")
		open(t, file)
		for old, replacement := range map[string]string{
			"/P -3900/O": "/P -3844/O", "/Length 256/CF": "/EncryptMetadata false/CF", "/Perms<": "/Other<",
		} {
			changed := replaceOnce(t, file, old, replacement)
			if _, err := Open(bytes.NewReader(changed), int64(len(changed))); !errors.Is(err, ErrEncryption) {
				t.Errorf("%s: Open returned %v, want ErrEncryption", replacement, err)
			}
		}
	}
}

// A string that is an indirect object is encrypted like the strings in other
// objects (7.6.2).
func TestIndirectStringIsDecrypted(t *testing.T) {
	t.Parallel()
	for _, how := range []int{encryptRC4128, encryptAES128, encryptAES256} {
		file := encrypted(t, how, "", "owner")
		d := open(t, file)
		u := d.Update()
		ref := u.Add(String("a title"))
		tail, err := u.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(tail, []byte("a title")) {
			t.Error("the tail contains the string unencrypted")
		}
		if got := open(t, append(file, tail...)).Text(ref); got != "a title" {
			t.Errorf("string = %q, want \"a title\"", got)
		}
	}
}
