package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/certvault/certvault/internal/blob"
)

// TestCommandProcess reads these environment variables. It runs a command line if the first one is
// set. The others limit the size of files in bytes, and set the id of the user.
const (
	processVariable  = "CERTVAULT_TEST_PROCESS"
	fileSizeVariable = "CERTVAULT_TEST_FILE_SIZE"
	userVariable     = "CERTVAULT_TEST_USER"
)

// otherUser is the id of a user without special permissions.
const otherUser = 65534

// process returns a command that runs the command line args in a separate process, and the buffers of
// its output.
func process(t *testing.T, env []string, args ...string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
	t.Helper()
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	cmd = exec.CommandContext(t.Context(), os.Args[0], append([]string{"-test.run=^TestCommandProcess$", "--"}, args...)...)
	cmd.Env = append(append(os.Environ(), processVariable+"=1"), env...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	return cmd, stdout, stderr
}

// TestCommandProcess is not a test. It runs the command line of a process that another test started.
func TestCommandProcess(t *testing.T) {
	if os.Getenv(processVariable) == "" {
		t.Skip("it only runs command lines for other tests")
	}
	if size, err := strconv.ParseUint(os.Getenv(fileSizeVariable), 10, 64); err == nil {
		signal.Ignore(syscall.SIGXFSZ)
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: size, Max: size}); err != nil {
			t.Fatal(err)
		}
	}
	if user, err := strconv.Atoi(os.Getenv(userVariable)); err == nil {
		if err := syscall.Setuid(user); err != nil {
			t.Fatal(err)
		}
	}
	for i, arg := range os.Args {
		if arg == "--" {
			os.Exit(run(t.Context(), os.Args[i+1:], os.Stdin, os.Stdout, os.Stderr))
		}
	}
}

// sourceStore creates a file store with an installation id and n files of 4096 bytes. It returns the
// folder of the store.
func sourceStore(t *testing.T, n int) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "files")
	f, err := blob.NewFolder(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.SetInstallation(t.Context(), blob.NewInstallation(time.Now())); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		file := filepath.Join(root, "blobs", "inst", fmt.Sprintf("%02x", i%16), fmt.Sprintf("%d.original", i))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, bytes.Repeat([]byte(fmt.Sprintf("%07d\n", i)), 512), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// checkCopy checks that a copy contains all files of a store, unchanged. It returns the number of
// these files, without certvault.json.
func checkCopy(t *testing.T, from, to string) (n int) {
	t.Helper()
	for _, name := range append(storedFiles(t, from), "certvault.json") {
		want, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(to, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is missing in the copy or differs: %v", name, err)
		}
		n++
	}
	return n - 1
}

// storedFiles returns the paths, relative to root, of the files in the folder blobs of a store.
func storedFiles(t *testing.T, root string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(root, "blobs"), func(name string, e os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err == nil && !e.IsDir() {
			name, err = filepath.Rel(root, name)
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestBlobCopyContinuesAfterKill kills the copy twice. The next run must copy only the missing files,
// and the copy must contain no certvault.json before it is complete.
func TestBlobCopyContinuesAfterKill(t *testing.T) {
	t.Parallel()
	const n = 3000
	from, to := sourceStore(t, n), filepath.Join(t.TempDir(), "copy")
	kills := 0
	for _, files := range []int{20, 200} {
		cmd, _, stderr := process(t, nil, "blob", "copy", from, to)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(time.Minute); len(storedFiles(t, to)) < files && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil {
			t.Fatalf("the copy ended before it was killed: %s", stderr)
		}
		kills++
		if _, err := os.Stat(filepath.Join(to, "certvault.json")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("after kill %d: os.Stat of certvault.json in the copy = %v, want os.ErrNotExist", kills, err)
		}
	}
	stored := int64(len(storedFiles(t, to)))
	var counts blob.CopyCounts
	runJSON(t, "", &counts, "blob", "copy", from, to)
	if counts.Skipped != stored || counts.Copied != n-stored || counts.Failed != 0 || stored == 0 || stored == n {
		t.Errorf("counts of the continued copy = %+v, want %d skipped and %d copied, both greater than 0", counts, stored, n-stored)
	}
	if got := checkCopy(t, from, to); got != n {
		t.Errorf("compared files = %d, want %d", got, n)
	}
}

// TestBlobCopyReportsFlippedByte checks that the command names a file that differs in the target, and
// that its exit code is 1.
func TestBlobCopyReportsFlippedByte(t *testing.T) {
	t.Parallel()
	from, to := sourceStore(t, 20), filepath.Join(t.TempDir(), "copy")
	var counts blob.CopyCounts
	runJSON(t, "", &counts, "blob", "copy", from, to)
	if counts != (blob.CopyCounts{Copied: 20, Bytes: 20 * 4096}) {
		t.Errorf("counts = %+v, want 20 files of 4096 bytes", counts)
	}
	file := filepath.Join(to, "blobs", "inst", "03", "3.original")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text[2000] ^= 1
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := certvault(t, "", "blob", "copy", from, to, "--json")
	if err := json.Unmarshal([]byte(out), &counts); err != nil {
		t.Fatal(err)
	}
	if code != exitRefused || counts != (blob.CopyCounts{Skipped: 19, Failed: 1}) || !strings.Contains(errs, "inst/03/3.original: the file in the target differs") {
		t.Errorf("exit code = %d, counts = %+v, stderr = %s, want exit code 1, 19 files skipped, and the name of the file that differs", code, counts, errs)
	}
}

// TestBlobCopyToFullDisk checks that the exit code is 1 and no partial file remains if a file cannot
// be written or the disk is nearly full. After the files could not be written, the same command without the
// limit on their size must copy them.
func TestBlobCopyToFullDisk(t *testing.T) {
	t.Parallel()
	from := sourceStore(t, 200)
	check := func(to, want string, env ...string) {
		t.Helper()
		cmd, stdout, stderr := process(t, env, "blob", "copy", from, to)
		if err := cmd.Run(); cmd.ProcessState.ExitCode() != exitRefused || !strings.Contains(stderr.String(), want) || !strings.Contains(stderr.String(), to) {
			t.Errorf("the copy: %v, stdout = %s, stderr = %s, want exit code 1, %q and the folder", err, stdout, stderr, want)
		}
		for _, name := range storedFiles(t, to) {
			if info, err := os.Stat(filepath.Join(to, name)); err != nil || info.Size() != 4096 {
				t.Errorf("the file %s of the interrupted copy does not have 4096 bytes: %v", name, err)
			}
		}
		if entries, err := os.ReadDir(filepath.Join(to, "incoming")); err != nil || len(entries) > 0 {
			t.Errorf("unfinished files = %v, %v, want none", entries, err)
		}
	}
	to := filepath.Join(t.TempDir(), "copy")
	check(to, "file too large", fileSizeVariable+"=3000")
	var counts blob.CopyCounts
	runJSON(t, "", &counts, "blob", "copy", from, to)
	checkCopy(t, from, to)
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=300k"); err != nil {
		t.Skipf("a small disk cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	check(filepath.Join(disk, "copy"), "the store is nearly full")
}

// TestBlobCopyWithoutPermission checks that the command names a file that it cannot read and copies
// all other files, and that it ends if it cannot write to the target.
func TestBlobCopyWithoutPermission(t *testing.T) {
	t.Parallel()
	from, base := sourceStore(t, 10), t.TempDir()
	var env []string
	if os.Getuid() == 0 {
		env = append(env, fmt.Sprintf("%s=%d", userVariable, otherUser))
	}
	closed := filepath.Join(base, "closed")
	for _, dir := range []string{filepath.Dir(from), filepath.Dir(filepath.Dir(from)), from, filepath.Join(from, "blobs"), base, filepath.Dir(base)} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// A command that another test ran in this process may have set the umask to 077.
	if err := filepath.WalkDir(filepath.Join(from, "blobs"), func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.Chmod(name, 0o755)
		}
		return os.Chmod(name, 0o644)
	}); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(base, "open")
	if err := errors.Join(os.Mkdir(to, 0o777), os.Chmod(to, 0o777), os.Mkdir(closed, 0o500), os.Chmod(filepath.Join(from, "certvault.json"), 0o644),
		os.Chmod(filepath.Join(from, "blobs", "inst", "04", "4.original"), 0)); err != nil {
		t.Fatal(err)
	}
	cmd, stdout, stderr := process(t, env, "blob", "copy", from, to)
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != exitRefused || !strings.Contains(stderr.String(), "inst/04/4.original: ") ||
		!strings.Contains(stderr.String(), "permission denied") || len(storedFiles(t, to)) != 9 {
		t.Errorf("the copy of a file that cannot be read: %v, stdout = %s, stderr = %s, files = %v, want exit code 1, the name of the file and 9 files", err, stdout, stderr, storedFiles(t, to))
	}
	cmd, stdout, stderr = process(t, env, "blob", "copy", from, filepath.Join(closed, "copy"))
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != exitRefused || !strings.Contains(stderr.String(), "permission denied") || !strings.Contains(stderr.String(), closed) {
		t.Errorf("the copy to a folder that cannot be written to: %v, stdout = %s, stderr = %s, want exit code 1 and the folder", err, stdout, stderr)
	}
}

// TestBlobCopyArguments checks the exit code for wrong arguments, and the output of a copy.
func TestBlobCopyArguments(t *testing.T) {
	t.Parallel()
	from, to := sourceStore(t, 1), filepath.Join(t.TempDir(), "copy")
	for _, args := range [][]string{{"s3://key:secret@bucket/prefix", to}, {from, "s3://bucket/prefix?key=secret"}, {from, "ftp://host"}, {from, ""}, {from}} {
		if code, _, errs := certvault(t, "", append([]string{"blob", "copy"}, args...)...); code != exitUsage {
			t.Errorf("blob copy %q: exit code = %d, stderr = %s, want %d", args, code, errs, exitUsage)
		}
	}
	if code, _, errs := certvault(t, "", "blob", "copy", from, filepath.Join(from, "copy")); code != exitRefused || !strings.Contains(errs, "inside it") {
		t.Errorf("a copy inside the source: exit code = %d, stderr = %s, want %d", code, errs, exitRefused)
	}
	if code, out, errs := certvault(t, "", "blob", "copy", from, to); code != exitDone || out != "Files copied: 1 (4096 bytes), already in the target: 0.\n" || errs != "" {
		t.Errorf("exit code = %d, stdout = %q, stderr = %q, want %d and one copied file of 4096 bytes", code, out, errs, exitDone)
	}
}
