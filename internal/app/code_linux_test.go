package app

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// filePages returns the number of pages of files in the memory of this process (proc_pid_statm(5)).
func filePages(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.Fields(string(text))[2])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestReleaseCode checks that the pages of the binary leave the memory, and that the process continues.
// Other tests run at the same time and get pages back.
func TestReleaseCode(t *testing.T) {
	t.Parallel()
	before := filePages(t)
	for range 20 {
		if err := releaseCode(); err != nil {
			t.Fatal(err)
		}
		if filePages(t) < before*3/4 {
			return
		}
	}
	t.Errorf("the process had %d pages of files in memory, and still has %d", before, filePages(t))
}
