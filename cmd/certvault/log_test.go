package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// stalledWriter is a writer whose Write waits until release is closed, like a pipe that nothing reads.
type stalledWriter struct {
	release chan struct{}
	mu      sync.Mutex
	bytes.Buffer
}

func (s *stalledWriter) Write(p []byte) (int, error) {
	<-s.release
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Buffer.Write(p)
}

// TestServerContinuesIfNothingReadsTheLog checks that Write does not wait for the reader of standard
// error, that the memory for lines is bounded, and that lost lines are counted.
func TestServerContinuesIfNothingReadsTheLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &stalledWriter{release: make(chan struct{})}
		l := newLogWriter(w, logHandler("json", slog.LevelInfo, false))
		line := append(bytes.Repeat([]byte("x"), 1<<10-1), '\n')
		for range 3 * maxPendingLog / len(line) {
			if n, err := l.Write(line); n != len(line) || err != nil {
				t.Fatalf("Write = %d, %v, want the length of the line and no error", n, err)
			}
		}
		synctest.Wait()
		if len(l.pending) > maxPendingLog {
			t.Errorf("%d bytes are pending, want at most %d", len(l.pending), maxPendingLog)
		}
		began := time.Now()
		l.stop()
		if took := time.Since(began); took != logStopTime {
			t.Errorf("stop took %v, want %v", took, logStopTime)
		}
		close(w.release)
		synctest.Wait()
		l.stop()
		lines := strings.SplitAfter(strings.TrimSpace(w.String()), "\n")
		var last struct {
			Msg   string
			Lines int
		}
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Lines == 0 || last.Lines+len(lines)-1 != 3*maxPendingLog/len(line) {
			t.Errorf("%d lines were written, and the last is %+v, %v; want a last line with the number of lost lines", len(lines), last, err)
		}
	})
}

// TestServerContinuesIfTheReaderOfTheLogDies checks that Write returns no error if writing to standard
// error fails.
func TestServerContinuesIfTheReaderOfTheLogDies(t *testing.T) {
	t.Parallel()
	l := newLogWriter(brokenWriter{}, logHandler("json", slog.LevelInfo, false))
	for range 3 {
		if n, err := l.Write([]byte("x\n")); n != 2 || err != nil {
			t.Errorf("Write = %d, %v, want 2 and no error", n, err)
		}
	}
	l.stop()
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// logBuffer is a buffer that timers and the test use concurrently.
type logBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

func (b *logBuffer) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buffer.Reset()
}

// TestLogFormat checks the format of the log. Without --log, it is JSON with all requests, except on a
// terminal, where it is text that omits requests without an error. With --log, it has the given format
// and all requests.
func TestLogFormat(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		format   string
		terminal bool
		text     bool
		requests int
	}{
		{"", false, false, 2}, {"", true, true, 1}, {"text", true, true, 2}, {"text", false, true, 2}, {"json", true, false, 2},
	} {
		var out bytes.Buffer
		repeats := newRepeatHandler(logHandler(c.format, slog.LevelInfo, c.terminal)(&out))
		log := slog.New(repeats).With("node", "a b\x1b")
		log.Info("serving")
		log.Info(requestMessage, slog.Int("status", 200))
		log.Error(requestMessage, slog.Int("status", 500), slog.Any("error", errors.New("x")))
		repeats.stop()
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if got := strings.Count(out.String(), requestMessage); got != c.requests || len(lines) != c.requests+1 || json.Valid([]byte(lines[0])) == c.text || strings.Contains(out.String(), "\x1b") {
			t.Errorf("--log %q, terminal %v: the log is %q, want text %v, and %d requests", c.format, c.terminal, out.String(), c.text, c.requests)
		}
	}
}

// TestLogLevelAndUnits checks that lines below --log-level are omitted, and that durations have a unit
// in both formats.
func TestLogLevelAndUnits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		format string
		level  slog.Level
		lines  int
		took   string
	}{
		{"json", slog.LevelDebug, 4, `"took_ms":1.234}`}, {"json", slog.LevelInfo, 3, `"took_ms":1.234}`}, {"text", slog.LevelInfo, 3, "took=1.2341ms\n"},
		{"json", slog.LevelWarn, 2, ""}, {"text", slog.LevelError, 1, ""},
	} {
		var out bytes.Buffer
		repeats := newRepeatHandler(logHandler(c.format, c.level, true)(&out))
		log := slog.New(repeats)
		log.Debug("a")
		log.Info(requestMessage, slog.Duration("took", 1234100*time.Nanosecond))
		log.Warn("c")
		log.Error("d")
		repeats.stop()
		if n := strings.Count(out.String(), "\n"); n != c.lines || !strings.Contains(out.String(), c.took) {
			t.Errorf("--log %s --log-level %s: the log is\n%s\nwant %d lines and %s", c.format, c.level, out.String(), c.lines, c.took)
		}
	}
}

// TestRepeatedRequestsWithoutInformation checks that a request whose error is a repetition is omitted at
// --log-level warn, because its line has the level INFO.
func TestRepeatedRequestsWithoutInformation(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	repeats := newRepeatHandler(logHandler("json", slog.LevelWarn, false)(&out))
	for range 2 {
		slog.New(repeats).Error(requestMessage, slog.String("error", "no space left on device"))
	}
	if n := strings.Count(out.String(), "\n"); n != 1 {
		t.Errorf("two requests with the same error at --log-level warn: %d lines, want 1:\n%s", n, out.String())
	}
	repeats.stop()
}

// TestRepeatedErrorsAreLoggedOnceWithACount checks that a repeated error is logged once and then
// counted, and that each request is logged. The number of different records that are counted must be
// bounded.
func TestRepeatedErrorsAreLoggedOnceWithACount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out logBuffer
		repeats := newRepeatHandler(slog.NewJSONHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "took" {
				return slog.Attr{}
			}
			return a
		}}))
		log := slog.New(repeats)
		ctx := context.Background()
		lost := func(port int) error { return fmt.Errorf("read tcp 127.0.0.1:%d: connection refused", port) }
		check := func(name string, want ...string) {
			t.Helper()
			synctest.Wait()
			got := strings.Split(strings.TrimSpace(out.String()), "\n")
			if out.String() == "" {
				got = nil
			}
			out.Reset()
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: the log is\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
		for i := range 3 {
			log.ErrorContext(ctx, "a task failed", slog.String("task", "sweep"), slog.Any("error", lost(40000+i)))
			log.With("task", "rescue").ErrorContext(ctx, "a task failed", slog.Any("error", lost(40000+i)))
			log.InfoContext(ctx, "done")
		}
		const failed = `{"level":"ERROR","msg":"a task failed","task":"%s","error":"read tcp 127.0.0.1:%d: connection refused"%s}`
		done := `{"level":"INFO","msg":"done"}`
		check("three times", fmt.Sprintf(failed, "sweep", 40000, ""), fmt.Sprintf(failed, "rescue", 40000, ""), done, done, done)
		time.Sleep(repeatTime)
		synctest.Wait()
		if n := strings.Count(out.String(), `"repeated":2}`); n != 2 {
			t.Errorf("after the first minute: %d lines with 2 repetitions, want 2: %s", n, out.String())
		}
		out.Reset()
		time.Sleep(repeatTime)
		check("after a minute without the error")
		log.ErrorContext(ctx, "a task failed", slog.String("task", "sweep"), slog.Any("error", lost(1)))
		check("again", fmt.Sprintf(failed, "sweep", 1, ""))

		// Each request is logged, because an operator may search for its id.
		for i := range 2 {
			log.ErrorContext(ctx, "request", slog.String("request_id", fmt.Sprint("id", i)), slog.Int("status", 503), slog.Duration("took", time.Duration(i)), slog.Any("error", lost(i)))
		}
		check("requests", `{"level":"ERROR","msg":"request","request_id":"id0","status":503,"error":"read tcp 127.0.0.1:0: connection refused"}`,
			`{"level":"INFO","msg":"request","request_id":"id1","status":503}`)
		repeats.stop()
		check("at the end", `{"level":"ERROR","msg":"request","request_id":"id1","status":503,"error":"read tcp 127.0.0.1:1: connection refused","repeated":1}`)

		for i := range 2 * maxRepeats {
			log.WarnContext(ctx, "many", slog.Int("n", i))
		}
		if len(repeats.counts.records) != maxRepeats || strings.Count(out.String(), "\n") != 2*maxRepeats {
			t.Errorf("%d records are counted and %d lines are logged, want %d and %d", len(repeats.counts.records), strings.Count(out.String(), "\n"), maxRepeats, 2*maxRepeats)
		}
		repeats.stop()
	})
}
