package client

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

func TestDownloadResumes(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("certificate "), 50_000)
	sum := sha256.Sum256(content)
	tag := `"` + hex.EncodeToString(sum[:]) + `"`
	serve := func(w http.ResponseWriter, r *seen, part []byte) {
		w.Header().Set("ETag", tag)
		if from := r.Header.Get("Range"); from != "" {
			if r.Header.Get("If-Range") != tag {
				t.Errorf("If-Range = %q, want %q", r.Header.Get("If-Range"), tag)
			}
			start, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(from, "bytes="), "-"))
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", start, len(content)-1, len(content)))
			w.Header().Set("Content-Length", strconv.Itoa(len(content)-start))
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(part[start:])
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		_, _ = w.Write(part)
	}
	s := newStub(t, func(w http.ResponseWriter, r *seen, attempt int) {
		if r.Header.Get("Accept") != "application/pdf" {
			t.Errorf("Accept = %q, want application/pdf", r.Header.Get("Accept"))
		}
		switch attempt {
		case 1:
			respond(w, 503, "{}")
		case 2:
			serve(w, r, content[:200_000])
			panic(http.ErrAbortHandler)
		case 3:
			serve(w, r, content[:400_000])
			panic(http.ErrAbortHandler)
		default:
			serve(w, r, content)
		}
	})
	var got bytes.Buffer
	s.must(s.client.Download(t.Context(), "u", &got))
	if !bytes.Equal(got.Bytes(), content) || len(s.seen) != 4 {
		t.Errorf("downloaded %d of %d bytes in %d attempts, want all in 4", got.Len(), len(content), len(s.seen))
	}

	for name, second := range map[string]func(w http.ResponseWriter){
		"another file":      func(w http.ResponseWriter) { respond(w, 200, "another", "ETag", `"another"`) },
		"from the start":    func(w http.ResponseWriter) { respond(w, 200, string(content), "ETag", tag) },
		"from a wrong byte": func(w http.ResponseWriter) { respond(w, 206, "x", "ETag", tag, "Content-Range", "bytes 1-2/600000") },
	} {
		s := newStub(t, func(w http.ResponseWriter, r *seen, attempt int) {
			if attempt > 1 {
				second(w)
				return
			}
			serve(w, r, content[:200_000])
			panic(http.ErrAbortHandler)
		})
		var got bytes.Buffer
		if err := s.client.Download(t.Context(), "u", &got); err == nil {
			t.Errorf("%s: Download returned nil after %d bytes, want an error", name, got.Len())
		}
	}
	s = newStub(t, func(w http.ResponseWriter, r *seen, _ int) { serve(w, r, content) })
	full := errors.New("the disk is full")
	if err := s.client.Download(t.Context(), "u", errWriter{full}); !errors.Is(err, full) || len(s.seen) != 1 {
		t.Errorf("a full disk: error = %v after %d attempts, want %v after 1", err, len(s.seen), full)
	}
}

type errWriter struct{ err error }

func (e errWriter) Write([]byte) (int, error) { return 0, e.err }

func TestFetchSendsNoToken(t *testing.T) {
	t.Parallel()
	s := newStub(t, func(w http.ResponseWriter, r *seen, _ int) {
		if r.Header.Get("Authorization") != "" {
			t.Error("the request for a public link has a token, want none")
		}
		respond(w, 200, "<svg/>")
	})
	var got bytes.Buffer
	s.must(s.client.Fetch(t.Context(), s.client.base+"/verify/NWU-1/qrcode.svg", &got))
	if got.String() != "<svg/>" {
		t.Errorf("content = %q, want <svg/>", got.String())
	}
	if err := s.client.Fetch(t.Context(), "http://vault.example.org/x", io.Discard); err == nil {
		t.Error("Fetch accepts an http link, want an error")
	}
	if _, err := s.client.Verify(t.Context(), "NWU-1"); err == nil {
		t.Error("Verify accepts a response that is SVG, want an error")
	}
}
