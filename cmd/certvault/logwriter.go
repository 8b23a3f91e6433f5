package main

import (
	"bytes"
	"io"
	"log/slog"
	"sync"
	"time"
)

const (
	// maxPendingLog is the maximum size of log lines that wait for the reader of standard error, in
	// bytes. It is enough for a few seconds of a busy vault.
	maxPendingLog = 4 << 20
	// logStopTime is the maximum time for which stop waits for the reader of standard error.
	logStopTime = time.Second
)

// logWriter writes log lines in the background, so that the vault continues if nothing reads
// standard error. Lines that exceed maxPendingLog are lost and counted.
type logWriter struct {
	w io.Writer
	// newHandler returns a handler for the line about lost lines.
	newHandler func(w io.Writer) slog.Handler
	// wake has a value if there are pending lines. stop sends a channel to stopping, and run closes this
	// channel when it ends.
	wake     chan struct{}
	stopping chan chan struct{}

	mu      sync.Mutex
	pending []byte
	lost    int
}

func newLogWriter(w io.Writer, newHandler func(w io.Writer) slog.Handler) *logWriter {
	l := &logWriter{w: w, newHandler: newHandler, wake: make(chan struct{}, 1), stopping: make(chan chan struct{})}
	go l.run()
	return l
}

// Write adds a line, or counts the line as lost if there is no space. Write never waits for the
// reader of standard error and never fails.
func (l *logWriter) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending)+len(line) > maxPendingLog {
		l.lost++
	} else {
		l.pending = append(l.pending, line...)
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
	return len(line), nil
}

func (l *logWriter) run() {
	for {
		select {
		case <-l.wake:
			l.drain()
		case done := <-l.stopping:
			l.drain()
			close(done)
			return
		}
	}
}

// drain writes all pending lines, and a line with the number of lost lines.
func (l *logWriter) drain() {
	for {
		l.mu.Lock()
		lines, lost := l.pending, l.lost
		l.pending, l.lost = nil, 0
		l.mu.Unlock()
		if len(lines) == 0 && lost == 0 {
			return
		}
		_, _ = l.w.Write(lines) // an error cannot be reported elsewhere
		if lost > 0 {
			var line bytes.Buffer
			slog.New(l.newHandler(&line)).Warn("log lines were lost because nothing read standard error", slog.Int("lines", lost))
			_, _ = l.w.Write(line.Bytes())
		}
	}
}

// stop lets run write the pending lines and end. It waits at most logStopTime.
func (l *logWriter) stop() {
	timer := time.NewTimer(logStopTime)
	defer timer.Stop()
	done := make(chan struct{})
	select {
	case l.stopping <- done:
	case <-timer.C:
		return
	}
	select {
	case <-done:
	case <-timer.C:
	}
}
