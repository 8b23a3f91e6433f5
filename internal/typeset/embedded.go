package typeset

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/go-text/typesetting/language"
	"github.com/klauspost/compress/zstd"
)

// The folder also contains committed files. So the package compiles before `make build` has written the
// fonts.
//
//go:embed fonts
var embedded embed.FS

// embeddedFonts are the fonts of the folder, in the order of preference. A font without a script is tried
// for every script, unless preferred is true: then only styles that name its family use it.
var embeddedFonts = []struct {
	file, family string
	weight       int
	category     Category
	script       language.Script
	preferred    bool
}{
	{file: "Inter_400Regular.ttf", family: Inter, weight: 400, category: SansSerif},
	{file: "Inter_600SemiBold.ttf", family: Inter, weight: 600, category: SansSerif},
	{file: "EBGaramond_400Regular.ttf", family: EBGaramond, weight: 400, category: Serif},
	{file: "EBGaramond_600SemiBold.ttf", family: EBGaramond, weight: 600, category: Serif},
	{file: "NotoSerif_400Regular.ttf", family: "Noto Serif", weight: 400, category: Serif},
	{file: "EBGaramond_400Regular_Italic.ttf", family: EBGaramond, weight: 400, category: Serif, preferred: true},
	{file: "CormorantGaramond_600SemiBold.ttf", family: CormorantGaramond, weight: 600, category: Serif, preferred: true},
	{file: "CormorantGaramond_500Medium_Italic.ttf", family: CormorantGaramond, weight: 500, category: Serif, preferred: true},
	{file: "Cinzel_500Medium.ttf", family: Cinzel, weight: 500, category: Display, preferred: true},
	{file: "PlayfairDisplay_700Bold.ttf", family: PlayfairDisplay, weight: 700, category: Display, preferred: true},
	{file: "Jost_400Regular.ttf", family: Jost, weight: 400, category: SansSerif, preferred: true},
	{file: "Jost_600SemiBold.ttf", family: Jost, weight: 600, category: SansSerif, preferred: true},
	{file: "GreatVibes_400Regular.ttf", family: GreatVibes, weight: 400, category: Script, preferred: true},
	{file: "PinyonScript_400Regular.ttf", family: PinyonScript, weight: 400, category: Script, preferred: true},
	{file: "NotoNaskhArabic_500Medium.ttf", family: "Noto Naskh Arabic", weight: 500, category: Serif, script: language.Arabic},
	{file: "NotoSansHebrew_400Regular.ttf", family: "Noto Sans Hebrew", weight: 400, category: SansSerif, script: language.Hebrew},
	{file: "NotoSerifDevanagari_500Medium.ttf", family: "Noto Serif Devanagari", weight: 500, category: Serif, script: language.Devanagari},
	{file: "NotoSerifBengali_400Regular.ttf", family: "Noto Serif Bengali", weight: 400, category: Serif, script: language.Bengali},
	{file: "NotoSansGurmukhi_400Regular.ttf", family: "Noto Sans Gurmukhi", weight: 400, category: SansSerif, script: language.Gurmukhi},
	{file: "NotoSansGujarati_400Regular.ttf", family: "Noto Sans Gujarati", weight: 400, category: SansSerif, script: language.Gujarati},
	{file: "NotoSansTamil_400Regular.ttf", family: "Noto Sans Tamil", weight: 400, category: SansSerif, script: language.Tamil},
	{file: "NotoSerifTelugu_400Regular.ttf", family: "Noto Serif Telugu", weight: 400, category: Serif, script: language.Telugu},
	{file: "NotoSansKannada_400Regular.ttf", family: "Noto Sans Kannada", weight: 400, category: SansSerif, script: language.Kannada},
	{file: "NotoSansMalayalam_400Regular.ttf", family: "Noto Sans Malayalam", weight: 400, category: SansSerif, script: language.Malayalam},
	{file: "NotoSansSinhala_400Regular.ttf", family: "Noto Sans Sinhala", weight: 400, category: SansSerif, script: language.Sinhala},
	{file: "NotoSansThai_400Regular.ttf", family: "Noto Sans Thai", weight: 400, category: SansSerif, script: language.Thai},
	{file: "NotoSansLao_400Regular.ttf", family: "Noto Sans Lao", weight: 400, category: SansSerif, script: language.Lao},
	{file: "NotoSansKhmer_400Regular.ttf", family: "Noto Sans Khmer", weight: 400, category: SansSerif, script: language.Khmer},
	{file: "NotoSansMyanmar_400Regular.ttf", family: "Noto Sans Myanmar", weight: 400, category: SansSerif, script: language.Myanmar},
	{file: "NotoSansGeorgian_400Regular.ttf", family: "Noto Sans Georgian", weight: 400, category: SansSerif, script: language.Georgian},
	{file: "NotoSansArmenian_400Regular.ttf", family: "Noto Sans Armenian", weight: 400, category: SansSerif, script: language.Armenian},
	{file: "NotoSansEthiopic_400Regular.ttf", family: "Noto Sans Ethiopic", weight: 400, category: SansSerif, script: language.Ethiopic},
}

// sum is a line of SHA256SUMS.
type sum struct{ digest, name string }

// digests returns the lines of SHA256SUMS in their order.
var digests = sync.OnceValues(func() ([]sum, error) {
	sums, err := embedded.ReadFile("fonts/SHA256SUMS")
	if err != nil {
		return nil, fmt.Errorf("reading the digests of the fonts: %w", err)
	}
	var out []sum
	for line := range strings.Lines(string(sums)) {
		if digest, name, ok := strings.Cut(strings.TrimSpace(line), "  "); ok {
			out = append(out, sum{digest, name})
		}
	}
	return out, nil
})

// readEmbedded returns an embedded font. It checks the digest at run time, because the embedded files are
// not committed: `make build` writes them.
func readEmbedded(name string) ([]byte, error) {
	data, err := unpack(name)
	if err != nil {
		return nil, err
	}
	sums, err := digests()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(sums, func(s sum) bool { return s.name == name })
	if got := sha256.Sum256(data); i < 0 || hex.EncodeToString(got[:]) != sums[i].digest {
		return nil, fmt.Errorf("%w: the SHA-256 of %s is %x, which is not that of SHA256SUMS: run `make build` again", ErrFont, name, got)
	}
	return data, nil
}

// unpack returns the content of a compressed file of the folder. The file of a font may use another font as
// its Zstandard dictionary: the id of the dictionary is the number of a line of SHA256SUMS, from 1.
func unpack(name string) ([]byte, error) {
	packed, err := embedded.ReadFile("fonts/" + name + ".zst")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrUnavailable
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	var header zstd.Header
	if err := header.Decode(packed); err != nil {
		return nil, fmt.Errorf("decompressing %s: %w", name, err)
	}
	options := []zstd.DOption{zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxFontSize)}
	if header.DictionaryID > 0 {
		sums, err := digests()
		if err != nil {
			return nil, err
		}
		if int(header.DictionaryID) > len(sums) {
			return nil, fmt.Errorf("%w: the dictionary of %s is missing: run `make build` again", ErrFont, name)
		}
		dictionary, err := unpack(sums[header.DictionaryID-1].name)
		if err != nil {
			return nil, err
		}
		options = append(options, zstd.WithDecoderDictRaw(header.DictionaryID, dictionary))
	}
	d, err := zstd.NewReader(nil, options...)
	if err != nil {
		return nil, fmt.Errorf("decompressing fonts: %w", err)
	}
	defer d.Close()
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
