package main

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

const (
	// repeatTime is the time during which a repeated warning or error is not logged again.
	repeatTime = time.Minute
	// maxRepeats is the maximum number of different records that are counted. Other records are logged
	// each time.
	maxRepeats = 1000
	// requestMessage is the message of the log lines about HTTP requests.
	requestMessage = "request"
)

// repeatHandler logs a warning or error once and counts its repetitions. After each repeatTime with
// repetitions, repeatHandler logs the last repetition with their number. During an outage, the same
// error would otherwise fill the log. The line of a request is not omitted, because an operator may search
// for the id of the request: if its error is a repetition, the line has the level INFO and no error.
type repeatHandler struct {
	slog.Handler

	counts *repeatCounts
	// scope contains the attributes and groups of the logger. Equal records of loggers with different
	// scopes are not repetitions.
	scope string
}

// repeatCounts are the counts that all handlers of a log share. The keys of records are the texts that
// repeatHandler.key returns.
type repeatCounts struct {
	mu      sync.Mutex
	records map[string]*repeatedRecord
}

// repeatedRecord counts the repetitions of a record that were not logged. last is the last repetition.
type repeatedRecord struct {
	handler slog.Handler
	last    slog.Record
	n       int
	timer   *time.Timer
}

func newRepeatHandler(h slog.Handler) *repeatHandler {
	return &repeatHandler{Handler: h, counts: &repeatCounts{records: map[string]*repeatedRecord{}}}
}

// WithAttrs implements slog.Handler.
func (h *repeatHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	var scope strings.Builder
	for _, a := range attrs {
		writeKey(&scope, a)
	}
	return &repeatHandler{Handler: h.Handler.WithAttrs(attrs), counts: h.counts, scope: h.scope + scope.String()}
}

// WithGroup implements slog.Handler.
func (h *repeatHandler) WithGroup(name string) slog.Handler {
	return &repeatHandler{Handler: h.Handler.WithGroup(name), counts: h.counts, scope: h.scope + name + "\x00"}
}

// Handle implements slog.Handler.
func (h *repeatHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn || !h.counts.repeats(h, r) {
		return h.Handler.Handle(ctx, r)
	}
	if r.Message != requestMessage || !h.Enabled(ctx, slog.LevelInfo) {
		return nil
	}
	line := slog.NewRecord(r.Time, slog.LevelInfo, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if a.Key != "error" {
			line.AddAttrs(a)
		}
		return true
	})
	return h.Handler.Handle(ctx, line)
}

// key returns a text that is equal for records that are repetitions of each other. The text omits
// what may differ between repetitions: the request id, the stack, the digits in the text of the error
// (for example in ports), and all attributes of a request except its error.
func (h *repeatHandler) key(r slog.Record) string {
	var key strings.Builder
	key.WriteString(h.scope + r.Level.String() + "\x00" + r.Message + "\x00")
	r.Attrs(func(a slog.Attr) bool {
		if r.Message != requestMessage && a.Key != "request_id" && a.Key != "stack" || a.Key == "error" {
			writeKey(&key, a)
		}
		return true
	})
	return key.String()
}

func writeKey(key *strings.Builder, a slog.Attr) {
	text := a.Value.Resolve().String()
	if a.Key == "error" {
		text = strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' {
				return -1
			}
			return r
		}, text)
	}
	key.WriteString(a.Key + "=" + text + "\x00")
}

// repeats reports whether a record is a repetition. It counts a repetition, and it stores a new
// record unless maxRepeats records are stored.
func (c *repeatCounts) repeats(h *repeatHandler, r slog.Record) bool {
	key := h.key(r)
	c.mu.Lock()
	defer c.mu.Unlock()
	if seen := c.records[key]; seen != nil {
		seen.n, seen.last = seen.n+1, r.Clone()
		return true
	}
	if len(c.records) < maxRepeats {
		seen := &repeatedRecord{handler: h.Handler}
		seen.timer = time.AfterFunc(repeatTime, func() { c.end(key) })
		c.records[key] = seen
	}
	return false
}

// end is called at the end of a repeatTime. If the record was repeated, end logs it with the number of
// repetitions and starts the timer again. Otherwise end removes the record.
func (c *repeatCounts) end(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := c.records[key]
	if seen == nil {
		return
	}
	if seen.n == 0 {
		delete(c.records, key)
		return
	}
	seen.log()
	seen.timer.Reset(repeatTime)
}

// log logs a repeated record with the number of repetitions, and sets the number to zero.
func (s *repeatedRecord) log() {
	s.last.AddAttrs(slog.Int("repeated", s.n))
	s.n = 0
	_ = s.handler.Handle(context.Background(), s.last) // the handler writes to memory, which does not fail
}

// stop logs the repetitions that were not logged yet, and removes all records.
func (h *repeatHandler) stop() {
	h.counts.mu.Lock()
	defer h.counts.mu.Unlock()
	for key, seen := range h.counts.records {
		seen.timer.Stop()
		if seen.n > 0 {
			seen.log()
		}
		delete(h.counts.records, key)
	}
}
