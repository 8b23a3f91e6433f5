package api

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzLoneSurrogate compares loneSurrogate with package json, which decodes half a surrogate pair
// as U+FFFD.
func FuzzLoneSurrogate(f *testing.F) {
	for _, s := range []string{
		`"a"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ude00"`, `"\ude00\ud83d"`, `"\\ud83d"`, `"\\\ud83d"`, `"\ud83d\\ude00"`, `"\ud83d\ud83d\ude00"`, `"\uD83D\uDE00"`,
		`"\ud83d\n"`, `"\ud83dx\ude00"`, `"\u0000\""`, `["\ud800", {"\udfff": 1}]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !json.Valid(text) || !utf8.Valid(text) || bytes.ContainsRune(text, utf8.RuneError) || bytes.Contains(bytes.ToLower(text), []byte(`\ufffd`)) {
			return
		}
		var value any
		if err := json.Unmarshal(text, &value); err != nil {
			return // a number that is too large
		}
		var decoded strings.Builder
		enc := json.NewEncoder(&decoded)
		if err := enc.Encode(value); err != nil {
			t.Fatal(err)
		}
		// If an object has two members with the same name, package json ignores the first, so only
		// values without objects are compared in both directions.
		if got, want := loneSurrogate(text), strings.ContainsRune(decoded.String(), utf8.RuneError); want && !got {
			t.Errorf("loneSurrogate(%s) = false, want true", text)
		} else if got && !want && !bytes.Contains(text, []byte("{")) {
			t.Errorf("loneSurrogate(%s) = true, want false", text)
		}
	})
}
