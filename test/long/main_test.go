package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestFindReturnsTestsThatCallShort(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		"a/a_test.go": `package a
			func TestDirect(t *testing.T) { if testing.Short() { t.Skip() } }
			func TestThroughHelper(t *testing.T) { t.Run("x", func(t *testing.T) { outer(t) }) }
			func outer(t *testing.T) { inner(t) }
			func TestOther(t *testing.T) { t.Short() }`,
		"a/b_test.go": `package a_test
			func inner(t *testing.T) { _ = testing.Short() }`,
		"b/b_test.go": `package b
			func TestFast(t *testing.T) { inner(t) }`,
		"a/a.go": `package a
			func TestIsNoTest() { testing.Short() }`,
	}
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tests, folders, err := find([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"TestDirect", "TestThroughHelper"}; !slices.Equal(tests, want) {
		t.Errorf("find returned the tests %v, want %v", tests, want)
	}
	if want := []string{filepath.Join(dir, "a")}; !slices.Equal(folders, want) {
		t.Errorf("find returned the folders %v, want %v", folders, want)
	}
}
