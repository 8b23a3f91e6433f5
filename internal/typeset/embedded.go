package typeset

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"github.com/go-text/typesetting/language"
	"github.com/klauspost/compress/zstd"
)

// The folder also contains committed files, so that the package compiles before `make build` has
// copied the fonts.
//
//go:embed fonts
var embedded embed.FS

// embeddedFonts are the fonts of the folder in the order in which a text without a preferred font
// tries them. A font without scripts is tried for every script.
var embeddedFonts = []struct {
	file, family string
	weight       int
	script       language.Script
}{
	{"Inter_400Regular.ttf", Inter, 400, 0},
	{"Inter_600SemiBold.ttf", Inter, 600, 0},
	{"EBGaramond_400Regular.ttf", EBGaramond, 400, 0},
	{"EBGaramond_600SemiBold.ttf", EBGaramond, 600, 0},
	{"NotoSerif_400Regular.ttf", "Noto Serif", 400, 0},
	{"NotoNaskhArabic_500Medium.ttf", "Noto Naskh Arabic", 500, language.Arabic},
	{"NotoSansHebrew_400Regular.ttf", "Noto Sans Hebrew", 400, language.Hebrew},
	{"NotoSerifDevanagari_500Medium.ttf", "Noto Serif Devanagari", 500, language.Devanagari},
	{"NotoSerifBengali_400Regular.ttf", "Noto Serif Bengali", 400, language.Bengali},
	{"NotoSansGurmukhi_400Regular.ttf", "Noto Sans Gurmukhi", 400, language.Gurmukhi},
	{"NotoSansGujarati_400Regular.ttf", "Noto Sans Gujarati", 400, language.Gujarati},
	{"NotoSansTamil_400Regular.ttf", "Noto Sans Tamil", 400, language.Tamil},
	{"NotoSerifTelugu_400Regular.ttf", "Noto Serif Telugu", 400, language.Telugu},
	{"NotoSansKannada_400Regular.ttf", "Noto Sans Kannada", 400, language.Kannada},
	{"NotoSansMalayalam_400Regular.ttf", "Noto Sans Malayalam", 400, language.Malayalam},
	{"NotoSansSinhala_400Regular.ttf", "Noto Sans Sinhala", 400, language.Sinhala},
	{"NotoSansThai_400Regular.ttf", "Noto Sans Thai", 400, language.Thai},
	{"NotoSansLao_400Regular.ttf", "Noto Sans Lao", 400, language.Lao},
	{"NotoSansKhmer_400Regular.ttf", "Noto Sans Khmer", 400, language.Khmer},
	{"NotoSansMyanmar_400Regular.ttf", "Noto Sans Myanmar", 400, language.Myanmar},
	{"NotoSansGeorgian_400Regular.ttf", "Noto Sans Georgian", 400, language.Georgian},
	{"NotoSansArmenian_400Regular.ttf", "Noto Sans Armenian", 400, language.Armenian},
	{"NotoSansEthiopic_400Regular.ttf", "Noto Sans Ethiopic", 400, language.Ethiopic},
}

// decoder decompresses the archive. It can be used by several goroutines.
var decoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxFontSize))
})

// digests returns the digests of the embedded fonts by file name.
var digests = sync.OnceValues(func() (map[string]string, error) {
	sums, err := embedded.ReadFile("fonts/SHA256SUMS")
	if err != nil {
		return nil, fmt.Errorf("reading the digests of the fonts: %w", err)
	}
	out := map[string]string{}
	for line := range strings.Lines(string(sums)) {
		if digest, name, ok := strings.Cut(strings.TrimSpace(line), "  "); ok {
			out[name] = digest
		}
	}
	return out, nil
})

// readEmbedded returns an embedded font. It checks the digest at run time, because the embedded
// file depends on the build folder.
func readEmbedded(name string) ([]byte, error) {
	data, err := unpack(name)
	if err != nil {
		return nil, err
	}
	sums, err := digests()
	if err != nil {
		return nil, err
	}
	if got := sha256.Sum256(data); hex.EncodeToString(got[:]) != sums[name] {
		return nil, fmt.Errorf("%w: the SHA-256 of %s is %x, want %s: run `make build` again", ErrFont, name, got, sums[name])
	}
	return data, nil
}

// unpack returns the content of a file of the archive.
func unpack(name string) ([]byte, error) {
	packed, err := embedded.ReadFile("fonts/" + name + ".zst")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrUnavailable
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	d, err := decoder()
	if err != nil {
		return nil, fmt.Errorf("decompressing fonts: %w", err)
	}
	data, err := d.DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("decompressing %s: %w", name, err)
	}
	return data, nil
}

// Licences returns the licence texts of the embedded fonts. The texts must accompany every binary
// that contains the fonts. The error is ErrUnavailable in a binary without the fonts.
func Licences() (string, error) {
	text, err := unpack("LICENSES.txt")
	return string(text), err
}
