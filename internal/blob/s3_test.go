package blob_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/blob/blobtest"
)

// eachServer runs a test with a server in memory, and with each server of blobtest.Servers whose program
// is present. Requests to the server go through a blobtest.Faults.
func eachServer(t *testing.T, test func(t *testing.T, s *blobtest.S3, faults *blobtest.Faults)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		faults := &blobtest.Faults{Next: &blobtest.Memory{}}
		test(t, blobtest.NewS3(t, faults), faults)
	})
	for _, server := range blobtest.Servers() {
		t.Run(server.Name, func(t *testing.T) {
			t.Parallel()
			faults := &blobtest.Faults{Next: blobtest.Proxy(t, server.Start(t).Endpoint)}
			test(t, blobtest.NewS3(t, faults), faults)
		})
	}
}

func openS3(t *testing.T, location string, o blob.S3Options) *blob.S3 {
	t.Helper()
	if o.Scratch == "" {
		o.Scratch = t.TempDir()
	}
	s, err := blob.OpenS3(location, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestS3(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *blobtest.S3, _ *blobtest.Faults) {
		t.Helper()
		for name, size := range map[string]int64{"without a cache": 0, "with a cache": 1 << 20} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				blobtest.Run(t, func(t *testing.T) blob.Store { t.Helper(); return openS3(t, s.Location(), blob.S3Options{Cache: size}) })
			})
		}
	})
}

// TestS3LargeBlob reads a blob that is too large for Open to copy it to this machine. It reads like a
// ZIP reader: at the end, at other places, and from the beginning to the end.
func TestS3LargeBlob(t *testing.T) {
	t.Parallel()
	content := make([]byte, 33<<20+12345)
	_, _ = rand.NewChaCha8([32]byte{}).Read(content)
	eachServer(t, func(t *testing.T, server *blobtest.S3, faults *blobtest.Faults) {
		t.Helper()
		s := openS3(t, server.Location(), blob.S3Options{Cache: 1 << 30})
		if n, err := s.Put(t.Context(), "a/archive", bytes.NewReader(content)); err != nil || n != int64(len(content)) {
			t.Fatalf("Put = %d, %v, want the size of the content", n, err)
		}
		faults.Reset()
		o, err := s.Open(t.Context(), "a/archive")
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []int{len(content) - 70_000, 0, 1<<20 - 10, 5 << 20, len(content) - 1} {
			got := make([]byte, min(65_000, len(content)-at))
			if _, err := o.ReadAt(got, int64(at)); err != nil || !bytes.Equal(got, content[at:at+len(got)]) {
				t.Errorf("the bytes at %d differ, or ReadAt failed: err = %v", at, err)
			}
		}
		if n, err := o.ReadAt(make([]byte, 10), int64(len(content))-5); n != 5 || !errors.Is(err, io.EOF) {
			t.Errorf("reading beyond the end = %d, %v, want 5 bytes and io.EOF", n, err)
		}
		got := sha256.New()
		if _, err := io.Copy(got, io.NewSectionReader(o, 0, o.Size())); err != nil || [32]byte(got.Sum(nil)) != sha256.Sum256(content) {
			t.Errorf("the whole content differs, or reading failed: err = %v", err)
		}
		// Reading the content in single windows would need 34 requests.
		if n := faults.Count(http.MethodGet); n > 18 {
			t.Errorf("GET requests = %d, want at most 18", n)
		}
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestS3LostAnswer checks that Put stores a file although responses of the server are lost, and that Put
// of another file under the same key then returns ErrExists.
func TestS3LostAnswer(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, server *blobtest.S3, faults *blobtest.Faults) {
		t.Helper()
		s := openS3(t, server.Location(), blob.S3Options{})
		for _, lost := range []int{1, 2, 4} {
			faults.First(lost, http.MethodPut, blobtest.Lost)
			key := fmt.Sprintf("a/%d", lost)
			if n, err := s.Put(t.Context(), key, strings.NewReader("content")); err != nil || n != 7 {
				t.Errorf("Put with %d lost responses = %d, %v, want 7 and no error", lost, n, err)
			}
			faults.First(lost, http.MethodPut, blobtest.Lost)
			if _, err := s.Put(t.Context(), key, strings.NewReader("another")); !errors.Is(err, blob.ErrExists) {
				t.Errorf("Put of another file with %d lost responses = %v, want ErrExists", lost, err)
			}
		}
		faults.Set(nil)
		if got := walkKeys(t, s); !slices.Equal(got, []string{"a/1", "a/2", "a/4"}) {
			t.Errorf("stored blobs = %v, want one for each call", got)
		}
	})
}

// TestS3RepeatsRequests checks that Put, Open and Delete succeed if the first request fails, and that
// Put stores the complete content.
func TestS3RepeatsRequests(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, server *blobtest.S3, faults *blobtest.Faults) {
		t.Helper()
		s := openS3(t, server.Location(), blob.S3Options{})
		content := strings.Repeat("content ", 10_000)
		for fault, name := range map[blobtest.Fault]string{blobtest.SlowDown: "slow", blobtest.Down: "down", blobtest.Lost: "lost", blobtest.Cut: "cut"} {
			key := "a/" + name
			faults.First(1, http.MethodPut, fault)
			if _, err := s.Put(t.Context(), key, strings.NewReader(content)); err != nil {
				t.Errorf("%s: Put = %v, want no error", name, err)
			}
			faults.First(1, http.MethodGet, fault)
			if got := readBlob(t, s, key); got != content {
				t.Errorf("%s: the %d bytes that were read differ from the stored content", name, len(got))
			}
			faults.First(1, http.MethodDelete, fault)
			if err := s.Delete(t.Context(), key); err != nil {
				t.Errorf("%s: Delete = %v, want no error", name, err)
			}
		}
	})
}

// TestS3IsUnavailable checks that operations return ErrUnavailable while the server does not work, and
// not an error that means that a file is missing or damaged.
func TestS3IsUnavailable(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]blobtest.Fault{
		"slow": blobtest.SlowDown, "down": blobtest.Down, "cut": blobtest.Cut, "wrong credentials": blobtest.Denied, "a proxy without a server": blobtest.Foreign,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			faults := &blobtest.Faults{Next: &blobtest.Memory{}}
			s := openS3(t, blobtest.NewS3(t, faults).Location(), blob.S3Options{})
			if err := s.SetInstallation(t.Context(), blob.NewInstallation(time.Now())); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Put(t.Context(), "a/1", strings.NewReader("content")); err != nil {
				t.Fatal(err)
			}
			faults.Always(fault)
			operations := map[string]func(ctx context.Context) error{
				"Open":         func(ctx context.Context) error { _, err := s.Open(ctx, "a/1"); return err },
				"Walk":         func(ctx context.Context) error { return s.Walk(ctx, "", func(blob.Info) error { return nil }) },
				"Installation": func(ctx context.Context) error { _, err := s.Installation(ctx); return err },
			}
			// The responses to Delete and Put have no body. Probe sends the same request as Installation.
			if fault != blobtest.Cut {
				operations["Delete"] = func(ctx context.Context) error { return s.Delete(ctx, "a/2") }
				operations["Probe"] = s.Probe
				operations["Put"] = func(ctx context.Context) error {
					_, err := s.Put(ctx, "a/3", strings.NewReader("content"))
					return err
				}
			}
			var running sync.WaitGroup
			for operation, run := range operations {
				running.Go(func() {
					err := run(t.Context())
					if !errors.Is(err, blob.ErrUnavailable) || errors.Is(err, blob.ErrNotFound) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.Canceled) {
						t.Errorf("%s = %v, want only ErrUnavailable", operation, err)
					}
				})
			}
			running.Wait()
		})
	}
}

// TestS3Cache checks that Open requests a blob once, and again if its copy is missing or incomplete, or
// with WithoutCache. It also checks that damaged content is not added to the cache.
func TestS3Cache(t *testing.T) {
	t.Parallel()
	memory := &blobtest.Memory{}
	faults := &blobtest.Faults{Next: memory}
	scratch := t.TempDir()
	s := openS3(t, blobtest.NewS3(t, faults).Location(), blob.S3Options{Cache: 25, Scratch: scratch})
	expect := func(key, content string, requests int) {
		t.Helper()
		faults.Reset()
		if got := readBlob(t, s, key); got != content {
			t.Errorf("%s = %q, want %q", key, got, content)
		}
		if n := faults.Count(http.MethodGet); n != requests {
			t.Errorf("requests for %s = %d, want %d", key, n, requests)
		}
	}
	put := func(key, content string) {
		t.Helper()
		if _, err := s.Put(t.Context(), key, strings.NewReader(content)); err != nil {
			t.Fatal(err)
		}
	}
	put("a/1", "the first ")
	expect("a/1", "the first ", 1) // Put adds no copy to the cache
	expect("a/1", "the first ", 0)
	if o, err := s.Open(blob.WithoutCache(t.Context()), "a/1"); err != nil || o.Close() != nil || faults.Count(http.MethodGet) != 1 {
		t.Errorf("requests without the cache = %d, err = %v, want one", faults.Count(http.MethodGet), err)
	}
	put("a/2", "the second")
	expect("a/2", "the second", 1)
	put("a/3", "the third ")
	expect("a/3", "the third ", 1)
	expect("a/2", "the second", 0)
	expect("a/1", "the first ", 1) // Open with WithoutCache removed the copy
	if entries, err := os.ReadDir(filepath.Join(scratch, "cache")); err != nil || len(entries) != 2 {
		t.Errorf("copies of 10 bytes in the cache of 25 bytes = %v, %v, want two", entries, err)
	}
	for _, name := range glob(t, filepath.Join(scratch, "cache", "*")) {
		if err := os.Truncate(name, 3); err != nil {
			t.Fatal(err)
		}
	}
	expect("a/1", "the first ", 1)
	if err := os.RemoveAll(scratch); err != nil {
		t.Fatal(err)
	}
	expect("a/1", "the first ", 1)
	expect("a/1", "the first ", 0)
	put("a/4", "the fourth")
	if err := s.Delete(t.Context(), "a/1"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(t.Context(), "a/1"); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("Open of a deleted blob = %v, want ErrNotFound", err)
	}
	memory.Replace("a/4", []byte("damaged"))
	expect("a/4", "damaged", 1)
	memory.Replace("a/4", []byte("the fourth"))
	expect("a/4", "the fourth", 1)
	if files := glob(t, filepath.Join(scratch, "incoming", "*")); len(files) > 0 {
		t.Errorf("files in transit remain: %v", files)
	}
}

// TestS3FullDisk checks that Put returns ErrFull if the disk of this machine is full, and that a failed
// Put frees its space.
func TestS3FullDisk(t *testing.T) {
	t.Parallel()
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=300k"); err != nil {
		t.Skipf("mounting a small disk failed: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	s := openS3(t, blobtest.NewS3(t, &blobtest.Memory{}).Location(), blob.S3Options{Scratch: filepath.Join(disk, "files")})
	if _, err := s.Put(t.Context(), "a/1", bytes.NewReader(make([]byte, 400_000))); !errors.Is(err, blob.ErrFull) {
		t.Errorf("Put of a file that is larger than the disk = %v, want ErrFull", err)
	}
	if _, err := s.Put(t.Context(), "a/1", strings.NewReader("small")); err != nil {
		t.Errorf("Put of a small file afterwards = %v, want no error", err)
	}
}

// TestS3Test checks that Test returns an error for servers without the features that the vault needs,
// and that it leaves no file.
func TestS3Test(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, server *blobtest.S3, _ *blobtest.Faults) {
		t.Helper()
		s := openS3(t, server.Location(), blob.S3Options{})
		if err := s.Test(t.Context()); err != nil {
			t.Errorf("Test = %v, want no error", err)
		}
		if i, err := s.Incomplete(t.Context()); err != nil || i.Uploads != 0 || i.Rule {
			t.Errorf("Incomplete = %+v, %v, want no uploads and no rule", i, err)
		}
	})
	for want, memory := range map[string]*blobtest.Memory{
		"If-None-Match": {Replaces: true}, "wrong checksum": {NoChecksums: true},
	} {
		s := openS3(t, blobtest.NewS3(t, memory).Location(), blob.S3Options{})
		if err := s.Test(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Test = %v, want an error with %q", err, want)
		}
		if keys := memory.Keys(); len(keys) > 0 {
			t.Errorf("files after Test = %v, want none", keys)
		}
	}
}

func TestS3Installation(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, server *blobtest.S3, _ *blobtest.Faults) {
		t.Helper()
		s := openS3(t, server.Location(), blob.S3Options{})
		if _, err := s.Installation(t.Context()); !errors.Is(err, blob.ErrNoInstallation) || !strings.Contains(err.Error(), "certvault.json") {
			t.Errorf("Installation of an empty store = %v, want ErrNoInstallation with the name of the file", err)
		}
		first := blob.NewInstallation(time.Now())
		for _, i := range []blob.Installation{first, blob.NewInstallation(time.Now())} {
			if err := s.SetInstallation(t.Context(), i); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := s.Installation(t.Context()); err != nil || got.ID != first.ID {
			t.Errorf("Installation = %+v, %v, want the first one", got, err)
		}
		if keys := walkKeys(t, s); len(keys) > 0 {
			t.Errorf("blobs = %v, want none", keys)
		}
	})
}

// TestCopyToS3AndBack copies a folder to a bucket and the bucket to a new folder. An interrupted copy is
// continued, and a file that differs is named.
func TestCopyToS3AndBack(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, server *blobtest.S3, faults *blobtest.Faults) {
		t.Helper()
		const n = 12
		source, _ := newSource(t, n)
		s := openS3(t, server.Location(), blob.S3Options{})
		back := blob.OpenFolder(filepath.Join(t.TempDir(), "files"))
		run := func(from, to blob.FileStore) (counts blob.CopyCounts, problems []string, err error) {
			c := &blob.Copier{From: from, To: to, Problem: func(key string, err error) { problems = append(problems, key+": "+err.Error()) }}
			err = c.Run(t.Context())
			return c.Counts(), problems, err
		}
		puts := 0
		faults.Set(func(r *http.Request) blobtest.Fault {
			if r.Method == http.MethodPut {
				puts++
			}
			if puts > 5 {
				return blobtest.Down
			}
			return blobtest.None
		})
		if _, _, err := run(source, s); !errors.Is(err, blob.ErrUnavailable) {
			t.Errorf("the interrupted copy = %v, want ErrUnavailable", err)
		}
		faults.Set(nil)
		if _, err := s.Installation(t.Context()); !errors.Is(err, blob.ErrNoInstallation) {
			t.Errorf("Installation of an interrupted copy = %v, want ErrNoInstallation", err)
		}
		if c, _, err := run(source, s); err != nil || c.Copied+c.Skipped != n || c.Skipped == 0 {
			t.Errorf("the continued copy = %+v, %v, want %d files, some of them skipped", c, err, n)
		}
		if c, _, err := run(s, back); err != nil || c.Copied != n {
			t.Errorf("the copy to a folder = %+v, %v, want %d files", c, err, n)
		}
		if keys := walkKeys(t, back); !slices.Equal(keys, walkKeys(t, source)) {
			t.Errorf("copied files = %v, want those of the source", keys)
		}
		blobtest.Replace(t, s, sourceKey(1), "damaged")
		if c, problems, err := run(source, s); !errors.Is(err, blob.ErrIncompleteCopy) || c.Failed != 1 || len(problems) != 1 || !strings.HasPrefix(problems[0], sourceKey(1)) {
			t.Errorf("the copy over a damaged file = %+v, %v, %v, want a problem with the name of the file", c, problems, err)
		}
		if _, _, err := run(s, s); err == nil || !strings.Contains(err.Error(), "is the source") {
			t.Errorf("the copy to itself = %v, want \"is the source\"", err)
		}
	})
}

// TestS3Locations checks that OpenURL refuses an invalid location with the reason, and that the error
// does not contain a credential.
func TestS3Locations(t *testing.T) {
	t.Parallel()
	const secret = "wJalrXUtnFEMI"
	missing := filepath.Join(t.TempDir(), "missing.pem")
	noPEM := filepath.Join(t.TempDir(), "ca.pem")
	writeFile(t, noPEM, "x")
	for location, want := range map[string]string{
		"s3://AKIA:" + secret + "@bucket/prefix":                      "must not contain credentials",
		"s3://" + secret + "@bucket":                                  "must not contain credentials",
		"s3://bucket?endpoint=https://AKIA:" + secret + "@s3.example": "must not contain credentials",
		"s3://bucket?secret_key=" + secret:                            `parameter "secret_key" is not known`,
		"s3://AKIA:" + secret + "/x@bucket":                           "s3://BUCKET/PREFIX",
		"s3://":                                                       "bucket",
		"s3://B":                                                      "bucket",
		"s3://bucket/a//b":                                            "prefix",
		"s3://bucket/../b":                                            "prefix",
		"s3://bucket/a%20b":                                           "prefix",
		"s3://bucket#x":                                               "s3://BUCKET/PREFIX",
		"s3://bucket?endpoint=s3.example":                             "endpoint must be https://",
		"s3://bucket?endpoint=ftp://s3.example":                       "endpoint must be https://",
		"s3://bucket?endpoint=https://s3.example/path":                "endpoint must be https://",
		"s3://bucket?region=":                                         "region must have one value",
		"s3://bucket?region=a&region=b":                               "region must have one value",
		"s3://bucket?path-style=yes":                                  "path-style must be auto, on or off",
		"s3://bucket?sse=aes":                                         "sse must be AES256",
		"s3://bucket?sse=aws:kms:":                                    "sse must be AES256",
		"s3://bucket?ca=" + missing:                                   "ca: open",
		"s3://bucket?ca=" + noPEM:                                     "no certificate",
		"s3://bucket?region=%zz":                                      "cannot be read",
	} {
		_, err := blob.OpenURL(location, blob.S3Options{Scratch: t.TempDir()})
		if !errors.Is(err, blob.ErrLocation) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("OpenURL(%q) = %v, want ErrLocation with %q and without the secret", location, err, want)
		}
	}
	blobtest.NewS3(t, nil) // NewS3 sets the credentials in the environment
	for location, want := range map[string]string{
		"s3://bucket":               "s3://bucket/certvault.json",
		"s3://bucket/a/b/?region=x": "s3://bucket/a/b/certvault.json",
		"s3://bucket/p?endpoint=http://127.0.0.1:9000/&sse=aws:kms:key&path-style=off": "s3://bucket/p/certvault.json",
	} {
		s, err := blob.OpenURL(location, blob.S3Options{Scratch: t.TempDir()})
		if err != nil || s.InstallationPath() != want {
			t.Errorf("OpenURL(%q) = %v, %v, want a store with %s", location, s, err, want)
		}
	}
}

// TestS3Encryption checks that Put requests the encryption that the parameter sse names.
func TestS3Encryption(t *testing.T) {
	t.Parallel()
	for sse, want := range map[string][2]string{"AES256": {"AES256", ""}, "aws:kms:a-key": {"aws:kms", "a-key"}} {
		var got [2]string
		memory := &blobtest.Memory{}
		server := blobtest.NewS3(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got = [2]string{r.Header.Get("X-Amz-Server-Side-Encryption"), r.Header.Get("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id")}
			memory.ServeHTTP(w, r)
		}))
		s := openS3(t, server.Location()+"&sse="+sse, blob.S3Options{})
		if _, err := s.Put(t.Context(), "a/1", strings.NewReader("x")); err != nil || got != want {
			t.Errorf("headers of sse=%s = %q, err = %v, want %q", sse, got, err, want)
		}
	}
}

// TestS3Observe checks that Observe is called for each request, with its operation and whether it
// failed.
func TestS3Observe(t *testing.T) {
	t.Parallel()
	faults := &blobtest.Faults{Next: &blobtest.Memory{}}
	var mu sync.Mutex
	seen := map[string]int{}
	s := openS3(t, blobtest.NewS3(t, faults).Location(), blob.S3Options{Observe: func(operation string, _ time.Duration, failed bool) {
		mu.Lock()
		defer mu.Unlock()
		seen[fmt.Sprint(operation, " ", failed)]++
	}})
	faults.First(1, http.MethodPut, blobtest.SlowDown)
	if _, err := s.Put(t.Context(), "a/1", strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	readBlob(t, s, "a/1")
	_, _ = s.Open(t.Context(), "a/2")
	walkKeys(t, s)
	if err := s.Delete(t.Context(), "a/1"); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"put true": 1, "put false": 1, "get false": 2, "list false": 1, "delete false": 1}
	if fmt.Sprint(seen) != fmt.Sprint(want) {
		t.Errorf("requests = %v, want %v", seen, want)
	}
}
