package body

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/certvault/certvault/internal/fault"
)

// limits returns Limits with a maximum size and without a time limit.
func limits(size int64) Limits {
	return Limits{Size: size, TooLarge: fault.New(fault.TooLarge, "too large"), Broken: fault.New(fault.Invalid, "broken")}
}

// request returns a request of unknown length.
func request(t *testing.T, content io.Reader) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
	r.Body, r.ContentLength = io.NopCloser(content), -1
	return r
}

func TestBodyOverSizeIsTooLarge(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		size, limit int
		over        bool
	}{{0, 0, false}, {1, 0, true}, {9, 10, false}, {10, 10, false}, {11, 10, true}, {1000, 10, true}} {
		for _, known := range []bool{false, true} {
			r := request(t, strings.NewReader(strings.Repeat("x", tc.size)))
			want := min(tc.size, tc.limit)
			if known {
				r.ContentLength = int64(tc.size)
				if tc.over {
					want = 0 // the body is not read
				}
			}
			Limit(httptest.NewRecorder(), r, limits(int64(tc.limit)))
			got, err := io.ReadAll(r.Body)
			if len(got) != want || fault.Is(err, fault.TooLarge) != tc.over || !tc.over && err != nil {
				t.Errorf("size %d, limit %d, known length %v: read %d bytes, want %d; error %v, want fault.TooLarge only for a body over the limit", tc.size, tc.limit, known, len(got), want, err)
			}
		}
	}
	broken := errors.New("connection lost")
	r := request(t, io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(broken)))
	Limit(httptest.NewRecorder(), r, limits(10))
	if got, err := io.ReadAll(r.Body); string(got) != "abc" || !fault.Is(err, fault.Invalid) || !errors.Is(err, broken) {
		t.Errorf("a broken body: read %q, want abc; error %v, want fault.Invalid with its cause", got, err)
	}
	r = request(t, strings.NewReader("0123456789"))
	Limit(httptest.NewRecorder(), r, limits(10))
	p := make([]byte, 10)
	if _, err := io.ReadFull(r.Body, p); err != nil {
		t.Fatal(err)
	}
	// At the end of a body of the maximum size, Read must return io.EOF, because io.ReadAll would
	// otherwise not end.
	if n, err := r.Body.Read(p); n != 0 || err != io.EOF { // io.ReadAll compares with == too
		t.Errorf("at the end: Read = %d, %v, want 0, io.EOF", n, err)
	}
}

func TestBodyWithoutLimits(t *testing.T) {
	t.Parallel()
	r := request(t, strings.NewReader("x"))
	Watch(httptest.NewRecorder(), r)
	if _, err := io.ReadAll(r.Body); err == nil || fault.KindOf(err) != fault.Internal {
		t.Errorf("without limits: error = %v, want an internal fault", err)
	}
	Limit(httptest.NewRecorder(), r, limits(1))
	if _, err := io.ReadAll(r.Body); err != nil {
		t.Errorf("with limits: error = %v, want nil", err)
	}
}

// deadlines records the deadlines of a connection, as durations since start.
type deadlines struct {
	http.ResponseWriter

	start       time.Time
	read, write []time.Duration
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.read = append(d.read, at.Sub(d.start))
	return nil
}

func (d *deadlines) SetWriteDeadline(at time.Time) error {
	d.write = append(d.write, at.Sub(d.start))
	return nil
}

// TestDeadlines checks that a read may wait for 30 seconds, but not beyond the time limit of the body.
// Many small reads within one second move the deadline once.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &deadlines{ResponseWriter: httptest.NewRecorder(), start: time.Now()}
		r := request(t, strings.NewReader(strings.Repeat("x", 41)))
		read := func() {
			t.Helper()
			if n, err := r.Body.Read(make([]byte, 1)); n != 1 || err != nil {
				t.Fatalf("Read = %d, %v, want 1, nil", n, err)
			}
		}
		l := limits(41)
		Limit(w, r, l)
		read()
		if w.read != nil || w.write != nil {
			t.Fatalf("a body without a time limit has the deadlines %v and %v, want none", w.read, w.write)
		}
		l.Time = time.Minute
		Limit(w, r, l)
		for range 4 {
			for range 10 {
				read()
			}
			time.Sleep(20 * time.Second)
		}
		want := []time.Duration{30 * time.Second, 50 * time.Second, 60 * time.Second, 60 * time.Second}
		if fmt.Sprint(w.read) != fmt.Sprint(want) {
			t.Errorf("the read deadlines are %v, want %v", w.read, want)
		}
		if len(w.write) != 1 || w.write[0] != 2*time.Minute {
			t.Errorf("the write deadlines are %v, want one deadline of 2m", w.write)
		}
	})
}

// trickle is a body. In each second, rate bytes of it arrive.
type trickle struct{ rate, ready int }

func (r *trickle) Read(p []byte) (int, error) {
	if r.ready == 0 {
		time.Sleep(time.Second)
		r.ready = r.rate
	}
	n := min(len(p), r.ready)
	r.ready -= n
	return n, nil
}

// TestSlowBodyEnds checks that the reading of a body ends after 30 seconds of waiting if less than 1000
// bytes per second arrive. The time between two calls of Read does not count.
func TestSlowBodyEnds(t *testing.T) {
	t.Parallel()
	for rate, slow := range map[int]bool{1: true, 999: true, 1000: false, 9999: false} {
		synctest.Test(t, func(t *testing.T) {
			w := &deadlines{ResponseWriter: httptest.NewRecorder(), start: time.Now()}
			r := request(t, io.MultiReader(strings.NewReader("x"), io.LimitReader(&trickle{rate: rate}, int64(100*rate))))
			l := limits(1 << 30)
			l.Time = time.Hour
			Limit(w, r, l)
			if _, err := r.Body.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Minute)
			before := time.Now()
			_, err := io.Copy(io.Discard, r.Body)
			if fault.Is(err, fault.TimedOut) != slow || !slow && err != nil {
				t.Errorf("%d bytes per second: error = %v, want fault.TimedOut below 1000 bytes per second, and nil otherwise", rate, err)
			}
			if took := time.Since(before); slow && took != 30*time.Second {
				t.Errorf("%d bytes per second: ended after %v, want 30s", rate, took)
			}
			start := time.Now()
			if Drain(r); slow && time.Since(start) > 0 {
				t.Errorf("%d bytes per second: Drain waited for the rest of the body, want no read", rate)
			}
		})
	}
}

// TestDeadlineAfterEndOfBody checks that the read deadline is the time limit when the body has ended.
func TestDeadlineAfterEndOfBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &deadlines{ResponseWriter: httptest.NewRecorder(), start: time.Now()}
		r := request(t, strings.NewReader("x"))
		l := limits(1)
		l.Time = time.Hour
		Limit(w, r, l)
		if _, err := io.ReadAll(r.Body); err != nil {
			t.Fatal(err)
		}
		if last := w.read[len(w.read)-1]; last != time.Hour {
			t.Errorf("the last read deadline is %v, want 1h", last)
		}
	})
}

// trackedBody is a body that records whether it was read.
type trackedBody struct {
	io.Reader

	read bool
}

func (b *trackedBody) Read(p []byte) (int, error) { b.read = true; return b.Reader.Read(p) }
func (b *trackedBody) Close() error               { return nil }

func TestDrainSkipsUnsentBody(t *testing.T) {
	t.Parallel()
	for what, tc := range map[string]struct {
		expect, touched, failed, drained bool
	}{
		"a client that does not wait for 100 Continue": {false, false, false, true},
		"a client that waits for 100 Continue":         {true, false, false, false},
		"a client that received 100 Continue":          {true, true, false, true},
		"a failed read":                                {false, true, true, false},
		"a failed read after 100 Continue":             {true, true, true, false},
	} {
		tracked := &trackedBody{Reader: bytes.NewReader(make([]byte, 1000))}
		r := request(t, nil)
		r.Body = tracked
		if tc.expect {
			r.Header.Set("Expect", "100-continue")
		}
		Watch(&deadlines{ResponseWriter: httptest.NewRecorder()}, r)
		b := r.Body.(*reader)
		b.touched, b.failed = tc.touched, tc.failed
		if Drain(r); tracked.read != tc.drained {
			t.Errorf("%s: Drain has read from the body = %v, want %v", what, tracked.read, tc.drained)
		}
	}
}

const boundary = "frontier"

// parts returns the parts of a form. pairs has the name of each part, followed by the value of the part.
func parts(pairs ...string) string {
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		fmt.Fprintf(&b, "--%s\r\nContent-Disposition: form-data; name=%q\r\n\r\n%s\r\n", boundary, pairs[i], pairs[i+1])
	}
	return b.String()
}

func form(t *testing.T, content io.Reader, size int64, maxParts int) *Form {
	t.Helper()
	r := request(t, content)
	r.Header.Set("Content-Type", "multipart/form-data; boundary="+boundary)
	l := limits(size)
	l.Parts = maxParts
	Limit(httptest.NewRecorder(), r, l)
	f, err := OpenForm(r)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFormReturnsPartsAndErrors(t *testing.T) {
	t.Parallel()
	end := "--" + boundary + "--\r\n"
	long := strings.Repeat("x", 3*maxPartHeader)
	whole := parts("a", "1", "b", long, "c", "3")
	timedOut := io.MultiReader(strings.NewReader(parts("a", "1")+"--"+boundary+"\r\nConte"), iotest.ErrReader(os.ErrDeadlineExceeded))
	const size = 1 << 20
	for what, tc := range map[string]struct {
		content  io.Reader
		maxParts int
		values   string
		kind     fault.Kind
	}{
		"three parts":                            {strings.NewReader(whole + end), 3, "a=1 b=xx c=3 ", -1},
		"too many parts":                         {strings.NewReader(whole + end), 2, "a=1 b=xx ", fault.Invalid},
		"no parts":                               {strings.NewReader(end), 3, "", -1},
		"empty body":                             {strings.NewReader(""), 3, "", fault.Invalid},
		"no last boundary":                       {strings.NewReader(whole), 3, "a=1 b=xx c=3 ", fault.Invalid},
		"truncated part":                         {strings.NewReader(whole[:len(whole)/2]), 3, "a=1 b=xx ", fault.Invalid},
		"a large part header":                    {strings.NewReader("--" + boundary + "\r\nX: " + long), 3, "", fault.Invalid},
		"a large preamble":                       {strings.NewReader(long + "\r\n" + whole + end), 3, "", fault.Invalid},
		"over the limit":                         {strings.NewReader(whole + strings.Repeat(parts("d", long), 10)), 100, "a=1 b=xx c=3 " + strings.Repeat("d=xx ", 5), fault.TooLarge},
		"over the limit after the last boundary": {strings.NewReader(whole + end + strings.Repeat("x", size)), 3, "a=1 b=xx c=3 ", fault.TooLarge},
		"after the deadline":                     {timedOut, 3, "a=1 ", fault.TimedOut},
	} {
		f := form(t, tc.content, size, tc.maxParts)
		var values strings.Builder
		for f.Next() {
			var all bytes.Buffer
			name := f.Part().FormName()
			value := f.Part().Value(2, &all)
			if !bytes.HasPrefix(all.Bytes(), value) {
				t.Errorf("%s: the value of %s is %q, want a prefix of %q", what, name, value, all.Bytes())
			}
			fmt.Fprintf(&values, "%s=%s ", name, value)
		}
		if values.String() != tc.values {
			t.Errorf("%s: values = %q, want %q", what, values.String(), tc.values)
		}
		if err := f.Err(); tc.kind < 0 && err != nil || tc.kind >= 0 && !fault.Is(err, tc.kind) {
			t.Errorf("%s: error = %v, want kind %v (-1: no error)", what, err, tc.kind)
		}
		if f.Next() {
			t.Errorf("%s: Next = true after the end, want false", what)
		}
	}
}

// TestNextSkipsUnreadRest checks that Next skips the rest of a part that was not read. If the rest is
// truncated, Err returns an error.
func TestNextSkipsUnreadRest(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 3*maxPartHeader)
	f := form(t, strings.NewReader(parts("a", long, "b", long)+"--"+boundary+"--"), 1<<20, 2)
	n := 0
	for f.Next() {
		n++
	}
	if n != 2 || f.Err() != nil {
		t.Errorf("got %d parts, want 2; error %v", n, f.Err())
	}
	f = form(t, strings.NewReader(parts("a", long)[:maxPartHeader]), 1<<20, 2)
	if !f.Next() || f.Next() || !fault.Is(f.Err(), fault.Invalid) {
		t.Errorf("a truncated part: error = %v, want 1 part and fault.Invalid", f.Err())
	}
}

func TestOpenFormRefusesOtherTypesAndCompression(t *testing.T) {
	t.Parallel()
	for _, contentType := range []string{"", "application/json", "multipart/mixed; boundary=x", "multipart/form-data", `multipart/form-data; boundary="`} {
		r := request(t, strings.NewReader(""))
		r.Header.Set("Content-Type", contentType)
		Limit(httptest.NewRecorder(), r, limits(10))
		if _, err := OpenForm(r); !fault.Is(err, fault.Unsupported) {
			t.Errorf("Content-Type %q: error = %v, want fault.Unsupported", contentType, err)
		}
	}
	r := request(t, strings.NewReader(""))
	r.Header.Set("Content-Type", "multipart/form-data; boundary=x")
	r.Header.Set("Content-Encoding", "gzip")
	Limit(httptest.NewRecorder(), r, limits(10))
	if _, err := OpenForm(r); !fault.Is(err, fault.Unsupported) {
		t.Errorf("a compressed form: error = %v, want fault.Unsupported", err)
	}
}

func TestParseFormReturnsFaults(t *testing.T) {
	t.Parallel()
	for content, kind := range map[string]fault.Kind{"a=1&b=2": -1, "a=%zz": fault.BadRequest, "a=" + strings.Repeat("x", 100): fault.TooLarge} {
		r := request(t, strings.NewReader(content))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		err := ParseForm(httptest.NewRecorder(), r, 50)
		if kind < 0 && (err != nil || r.PostForm.Get("b") != "2") || kind >= 0 && !fault.Is(err, kind) {
			t.Errorf("%q: error = %v, want kind %v (-1: no error, and b=2)", content, err, kind)
		}
	}
}
