package typeset

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/go-text/typesetting/language"
)

// Limits of font files and of the scan of a folder.
const (
	maxFontSize  = 32 << 20 // bytes
	largeFont    = 4 << 20  // bytes from which a font is large; see cache
	maxScanned   = 20_000   // files and folders
	maxScanDepth = 5
	maxFound     = 256 // fonts
)

// knownName matches the names of the regular fonts of the Noto families. Its second group is the script,
// or the region of a font for Han. Variable fonts do not match, because their names have brackets.
var knownName = regexp.MustCompile(`^Noto(Sans|Serif|Naskh|)([A-Za-z]*)[-_](?:400)?Regular\.(ttf|otf|ttc)$`)

// hanRegions are the regions of fonts for Han, by the second group of knownName. NotoSansCJK, without a
// region, is a collection of the fonts of all regions.
var hanRegions = map[string]string{
	"SC": "SC", "TC": "TC", "HK": "HK", "JP": "JP", "KR": "KR",
	"CJKsc": "SC", "CJKtc": "TC", "CJKhk": "HK", "CJKjp": "JP", "CJKkr": "KR",
}

// collection is the order of the fonts in the collections of Noto CJK.
var collection = []string{"JP", "KR", "SC", "TC", "HK"}

// scriptNames returns the scripts by the names that font files use: the Unicode names without underscores.
var scriptNames = sync.OnceValue(func() map[string]language.Script {
	out := map[string]language.Script{"": 0}
	for name, table := range unicode.Scripts {
		var first rune
		switch {
		case len(table.R16) > 0:
			first = rune(table.R16[0].Lo)
		case len(table.R32) > 0:
			first = rune(table.R32[0].Lo)
		}
		if s := language.LookupScript(first); s.Strong() {
			out[strings.ReplaceAll(name, "_", "")] = s
		}
	}
	return out
})

// scan returns the fonts of a folder that have known names. It stops without an error at its limits, and
// skips files and folders that it cannot read.
func scan(folder fs.FS) []*entry {
	var out []*entry
	seen := 0
	walk := func(name string, d fs.DirEntry, err error) error {
		if seen++; seen > maxScanned || len(out) >= maxFound {
			return fs.SkipAll
		}
		if err != nil || d.IsDir() {
			if err != nil || strings.Count(name, "/") >= maxScanDepth {
				return fs.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err != nil || !info.Mode().IsRegular() || info.Size() > maxFontSize {
			return nil //nolint:nilerr // the file is skipped
		}
		out = append(out, known(folder, name, info.Size())...)
		return nil
	}
	if err := fs.WalkDir(folder, ".", walk); err != nil {
		return out
	}
	// In the order of names, sans serif comes before serif, even if the files are in different folders.
	slices.SortStableFunc(out, func(a, b *entry) int { return strings.Compare(a.name, b.name) })
	return out
}

// known returns the fonts of a file, or none if its name is not known.
func known(folder fs.FS, name string, size int64) []*entry {
	m := knownName.FindStringSubmatch(path.Base(name))
	if m == nil {
		return nil
	}
	e := entry{
		name: strings.TrimSuffix(path.Base(name), path.Ext(name)), family: strings.TrimSpace("Noto " + m[1] + " " + m[2]), weight: 400, category: Serif,
		large: size >= largeFont, read: func() ([]byte, error) { return readFile(folder, name) },
	}
	if m[1] == "Sans" {
		e.category = SansSerif
	}
	var out []*entry
	add := func(index int, script language.Script, region string) {
		out = append(out, &entry{
			name: e.name, family: e.family, weight: e.weight, category: e.category, script: script, region: region,
			optional: true, large: e.large, index: index, read: e.read,
		})
	}
	region, isRegion := hanRegions[m[2]]
	switch {
	case m[2] == "CJK" && m[3] == "ttc":
		for i, region := range collection {
			add(i, language.Han, region)
		}
	case isRegion:
		add(0, language.Han, region)
	default:
		if script, ok := scriptNames()[m[2]]; ok {
			add(0, script, "")
		}
	}
	return out
}

// readFile reads a font of a folder.
func readFile(folder fs.FS, name string) ([]byte, error) {
	in, err := folder.Open(name)
	if err != nil {
		return nil, fmt.Errorf("opening a font: %w", err)
	}
	defer in.Close() //nolint:errcheck // it was only read
	data, err := io.ReadAll(io.LimitReader(in, maxFontSize+1))
	if err != nil {
		return nil, fmt.Errorf("reading a font: %w", err)
	}
	if len(data) > maxFontSize {
		return nil, fmt.Errorf("%w: %s is larger than %d bytes", ErrFont, name, maxFontSize)
	}
	return data, nil
}
