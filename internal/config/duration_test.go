package config_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestDurations(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"": 14 * 24 * time.Hour, "0": 0, "0d": 0, "30d": 30 * 24 * time.Hour, "36h": 36 * time.Hour, "1h30m": 90 * time.Minute, "36500d": 36500 * 24 * time.Hour,
	} {
		var args []string
		if text != "" {
			args = []string{"--blob-keep", text}
		}
		c, err := parse(t, args...)
		if err != nil {
			t.Errorf("--blob-keep %q: error = %v, want the duration %v", text, err, want)
		} else if got := time.Duration(c.BlobKeep); got != want {
			t.Errorf("--blob-keep %q: duration = %v, want %v", text, got, want)
		}
	}
	for _, text := range []string{"14", "d", "-1d", "-1h", "1.5d", "14 d", "two weeks", "36501d", "99999999d"} {
		if c, err := parse(t, "--blob-keep="+text); err == nil {
			t.Errorf("--blob-keep %q: duration = %v, want an error", text, time.Duration(c.BlobKeep))
		}
	}
}

func TestDurationInFile(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{`"2d"`: 48 * time.Hour, `"0"`: 0, `0`: 0} {
		file := filepath.Join(t.TempDir(), "certvault.toml")
		if err := os.WriteFile(file, []byte("blob-keep = "+text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := parse(t, "--config", file)
		if err != nil {
			t.Errorf("blob-keep = %s: error = %v, want the duration %v", text, err, want)
		} else if got := time.Duration(c.BlobKeep); got != want {
			t.Errorf("blob-keep = %s: duration = %v, want %v", text, got, want)
		}
	}
}
