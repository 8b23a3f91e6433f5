package client

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
)

// TestNotify checks that Upload, SubmitBatch and Issue send the value of the option Notify, and no field notify
// without the option. Revoke sends the field only for NotifyNever, with the value false.
func TestNotify(t *testing.T) {
	t.Parallel()
	var last []byte
	s := newStub(t, func(w http.ResponseWriter, r *seen, _ int) {
		last = r.body
		respond(w, 201, `{"data": {"batch_id": "b"}}`)
	})
	const at = "2026-07-01T09:00:00+02:00"
	calls := map[string]func(options ...Option) error{
		"upload": func(o ...Option) error {
			f, err := SeekFile("a.pdf", strings.NewReader("%PDF"))
			s.must(err)
			_, err = s.client.Upload(t.Context(), NewCertificate{FullName: "Ada", File: f}, o...)
			return err
		},
		"batch": func(o ...Option) error {
			_, err := s.client.SubmitBatch(t.Context(), []Entry{{FullName: "Ada"}}, o...)
			return err
		},
		"issue": func(o ...Option) error {
			_, err := s.client.Issue(t.Context(), "t", "", []IssueEntry{{FullName: "Ada"}}, o...)
			return err
		},
	}
	for name, call := range calls {
		s.must(call())
		if bytes.Contains(last, []byte("notify")) {
			t.Errorf("%s: a call without the option sends %s, want no field notify", name, last)
		}
		s.must(call(Notify(at)))
		if !bytes.Contains(last, []byte(`"notify"`)) || !bytes.Contains(last, []byte(at)) {
			t.Errorf("%s: a call with the option sends %s, want the field notify with its value", name, last)
		}
	}
	for _, tc := range []struct {
		options []Option
		want    string
	}{{nil, `{"reason":"x"}`}, {[]Option{Notify(NotifyNow)}, `{"reason":"x"}`}, {[]Option{Notify(NotifyNever)}, `{"reason":"x","notify":false}`}} {
		if _, err := s.client.Revoke(t.Context(), "u", "x", "", tc.options...); err != nil || string(last) != tc.want {
			t.Errorf("Revoke sends %s, want %s; error %v", last, tc.want, err)
		}
	}
}
