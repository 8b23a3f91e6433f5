package blobtest

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/md5" //nolint:gosec // the ETag of S3 is an MD5
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

const (
	// accessKey and secretKey are the credentials of all test servers.
	//nolint:gosec // only tests start these servers
	accessKey, secretKey = "certvault-test", "certvault-test-secret"
	bucket               = "certvault"
)

// S3 is a running S3 server for tests.
type S3 struct {
	// Endpoint is the URL of the server.
	Endpoint string
}

// setCredentials sets the environment variables from which the store reads its credentials. All servers
// have the same credentials, because parallel tests share the environment.
var setCredentials = sync.OnceValue(func() error {
	return errors.Join(os.Setenv("AWS_ACCESS_KEY_ID", accessKey), os.Setenv("AWS_SECRET_ACCESS_KEY", secretKey), os.Setenv("AWS_EC2_METADATA_DISABLED", "true"))
})

// NewS3 starts a server with a handler. The server stops when the test ends.
func NewS3(tb testing.TB, h http.Handler) *S3 {
	tb.Helper()
	if err := setCredentials(); err != nil {
		tb.Fatal(err)
	}
	server := httptest.NewServer(h)
	tb.Cleanup(server.Close)
	return &S3{Endpoint: server.URL}
}

// Location returns a location on the server with a new prefix.
func (s *S3) Location() string {
	return "s3://" + bucket + "/" + uuid.NewString() + "?endpoint=" + s.Endpoint + "&region=us-east-1&path-style=on"
}

// Memory is an S3 server that stores its objects in memory. It implements only the requests that the
// store sends, and does not check signatures. The tests of the store also run with real servers; see
// Servers.
type Memory struct {
	// Replaces makes the server ignore the header If-None-Match, as servers without conditional
	// requests do.
	Replaces bool
	// NoChecksums makes the server ignore checksums.
	NoChecksums bool

	mu      sync.Mutex
	objects map[string]object
}

type object struct {
	content  []byte
	checksum string
	tag      string
	modified time.Time
}

// Keys returns the names of all objects.
func (m *Memory) Keys() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.objects))
}

// Replace replaces the content of each object whose name contains name. It does not change the checksum,
// as when a disk damages a file.
func (m *Memory) Replace(name string, content []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, o := range m.objects {
		if strings.Contains(key, name) {
			m.objects[key] = object{content: content, checksum: o.checksum, tag: tag(content), modified: o.modified}
		}
	}
}

// ServeHTTP implements [http.Handler].
func (m *Memory) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/"+bucket+"/")
	switch query := r.URL.Query(); {
	case query.Has("list-type"):
		m.list(w, query.Get("prefix"), cmp.Or(query.Get("continuation-token"), query.Get("start-after")))
	case query.Has("uploads"):
		writeXML(w, http.StatusOK, struct {
			XMLName xml.Name `xml:"ListMultipartUploadsResult"`
		}{})
	case r.URL.RawQuery != "":
		fail(w, http.StatusNotImplemented, "NotImplemented")
	case r.Method == http.MethodPut:
		m.put(w, r, name)
	case r.Method == http.MethodDelete:
		m.mu.Lock()
		delete(m.objects, name)
		m.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	default:
		m.get(w, r, name)
	}
}

func (m *Memory) put(w http.ResponseWriter, r *http.Request, name string) {
	content, err := readChunks(r)
	if err != nil {
		fail(w, http.StatusBadRequest, "IncompleteBody")
		return
	}
	sum := sha256.Sum256(content)
	checksum := base64.StdEncoding.EncodeToString(sum[:])
	if want := r.Header.Get("X-Amz-Checksum-Sha256"); want != checksum && !m.NoChecksums {
		fail(w, http.StatusBadRequest, "BadDigest")
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, exists := m.objects[name]; exists && r.Header.Get("If-None-Match") == "*" && !m.Replaces {
		fail(w, http.StatusPreconditionFailed, "PreconditionFailed")
		return
	}
	if m.objects == nil {
		m.objects = map[string]object{}
	}
	o := object{content: content, checksum: checksum, tag: tag(content), modified: time.Now()}
	m.objects[name] = o
	w.Header().Set("ETag", o.tag)
}

func (m *Memory) get(w http.ResponseWriter, r *http.Request, name string) {
	m.mu.Lock()
	o, ok := m.objects[name]
	m.mu.Unlock()
	if !ok {
		fail(w, http.StatusNotFound, "NoSuchKey")
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("ETag", o.tag)
	if r.Header.Get("X-Amz-Checksum-Mode") != "" && r.Header.Get("Range") == "" && !m.NoChecksums {
		w.Header().Set("X-Amz-Checksum-Sha256", o.checksum)
	}
	http.ServeContent(w, r, "", o.modified, bytes.NewReader(o.content))
}

// maxKeys is the maximum number of objects in one response. It is small, so that a few objects need
// several responses.
const maxKeys = 5

type listResult struct {
	XMLName               xml.Name `xml:"ListBucketResult"`
	IsTruncated           bool
	NextContinuationToken string
	Contents              []listEntry
}

type listEntry struct {
	Key          string
	Size         int
	LastModified string
	ETag         string
}

func (m *Memory) list(w http.ResponseWriter, prefix, after string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list listResult
	for _, key := range slices.Sorted(maps.Keys(m.objects)) {
		if key <= after || !strings.HasPrefix(key, prefix) {
			continue
		}
		if len(list.Contents) == maxKeys {
			list.IsTruncated, list.NextContinuationToken = true, list.Contents[maxKeys-1].Key
			break
		}
		o := m.objects[key]
		list.Contents = append(list.Contents, listEntry{Key: key, Size: len(o.content), LastModified: o.modified.UTC().Format(time.RFC3339), ETag: o.tag})
	}
	writeXML(w, http.StatusOK, list)
}

func tag(content []byte) string {
	sum := md5.Sum(content) //nolint:gosec // the ETag of S3 is an MD5
	return strconv.Quote(hex.EncodeToString(sum[:]))
}

// fail writes an S3 error as the response.
func fail(w http.ResponseWriter, status int, code string) {
	writeXML(w, status, struct {
		XMLName xml.Name `xml:"Error"`
		Code    string
		Message string
	}{Code: code, Message: "an error of the test server"})
}

func writeXML(w http.ResponseWriter, status int, body any) {
	text, err := xml.Marshal(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// readChunks reads the body of a request. If the client signed the body in chunks, each chunk consists
// of its length in hexadecimal, its signature and its bytes, and the last chunk is empty.
func readChunks(r *http.Request) ([]byte, error) {
	if !strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
		return io.ReadAll(r.Body)
	}
	var content []byte
	body := bufio.NewReader(r.Body)
	for {
		line, err := body.ReadString('\n')
		if err != nil {
			return nil, err
		}
		length, _, _ := strings.Cut(strings.TrimSpace(line), ";")
		n, err := strconv.ParseInt(length, 16, 32)
		if err != nil {
			return nil, fmt.Errorf("the length of a chunk: %w", err)
		}
		if n == 0 {
			return content, nil
		}
		start := len(content)
		content = append(content, make([]byte, n)...)
		if _, err := io.ReadFull(body, content[start:]); err != nil {
			return nil, err
		}
		if _, err := body.Discard(len("\r\n")); err != nil {
			return nil, err
		}
	}
}
