package client

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
)

func TestApplySendsFieldsAndFiles(t *testing.T) {
	t.Parallel()
	s := newStub(t, func(w http.ResponseWriter, _ *seen, attempt int) {
		if attempt == 1 {
			respond(w, http.StatusServiceUnavailable, `{"message": "Wait."}`)
			return
		}
		respond(w, http.StatusCreated, `{"message": "ok", "data": {"uuid": "u", "fields": [{"key": "number", "value": "4711"}, {"key": "other", "value": null}]}}`)
	})
	file := func(name, content string) *File {
		f, err := SeekFile(name, strings.NewReader(content))
		s.must(err)
		return f
	}
	sent := int64(0)
	made, err := s.client.Apply(t.Context(), NewApplication{
		Offer: "transcript", FullName: "Ada", ApplicantEmail: "ada@example.org", Fields: map[string]string{"number": "4711", "empty": ""},
		Files: map[string][]*File{"id_card": {file("a.pdf", "first"), file("b.pdf", "second")}, "photo": {file("c.png", "third")}},
	}, Progress(func(n, total int64) {
		if total != 16 {
			t.Errorf("progress = %d of %d, want a total of 16", n, total)
		}
		sent = n
	}))
	s.must(err)
	if made.Value("number") != "4711" || made.Value("other") != "" || made.Value("unknown") != "" || sent != 16 {
		t.Errorf("application = %+v, %d bytes sent, want only the answer 4711 and 16 bytes", made, sent)
	}
	for _, r := range s.seen {
		_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		s.must(err)
		if r.ContentLength != int64(len(r.body)) {
			t.Errorf("Content-Length = %d, want %d", r.ContentLength, len(r.body))
		}
		var got []string
		for form := multipart.NewReader(strings.NewReader(string(r.body)), params["boundary"]); ; {
			part, err := form.NextPart()
			if errors.Is(err, io.EOF) {
				break
			}
			s.must(err)
			value, err := io.ReadAll(part)
			s.must(err)
			got = append(got, part.FormName()+"="+part.FileName()+":"+string(value))
		}
		want := "offer=:transcript full_name=:Ada applicant_email=:ada@example.org fields[number]=:4711 files[id_card]=a.pdf:first files[id_card]=b.pdf:second files[photo]=c.png:third"
		if strings.Join(got, " ") != want {
			t.Errorf("form = %v, want %s", got, want)
		}
	}
	if a, b := s.seen[0], s.seen[1]; a.Header.Get("Idempotency-Key") == "" || a.Header.Get("Idempotency-Key") != b.Header.Get("Idempotency-Key") {
		t.Error("the attempts have no idempotency key or different keys, want the same key")
	}
	if _, err := s.client.Apply(t.Context(), NewApplication{Files: map[string][]*File{"x": {nil}}}); err == nil {
		t.Error("Apply accepts a nil file, want an error")
	}
}

func TestStepsOfAReview(t *testing.T) {
	t.Parallel()
	s := newStub(t, func(w http.ResponseWriter, _ *seen, _ int) { respond(w, http.StatusOK, `{"data": {"uuid": "u"}}`) })
	file, err := SeekFile("transcript.pdf", strings.NewReader("%PDF"))
	s.must(err)
	c, ctx := s.client, t.Context()
	for path, step := range map[string]func() (*Application, error){
		"claim ":    func() (*Application, error) { return c.Claim(ctx, "u") },
		"release ":  func() (*Application, error) { return c.Release(ctx, "u") },
		"withdraw ": func() (*Application, error) { return c.Withdraw(ctx, "u") },
		`approve {"issue_date":"2026-07-03"}`: func() (*Application, error) {
			return c.Approve(ctx, "u", Approval{IssueDate: "2026-07-03"})
		},
		"approve %PDF": func() (*Application, error) {
			return c.Approve(ctx, "u", Approval{CertificateTitle: "T", File: file})
		},
		`reject {"reason":"No."}`:                  func() (*Application, error) { return c.Reject(ctx, "u", "No.", "") },
		`hold {"kind":"payment","text":"Please."}`: func() (*Application, error) { return c.PutOnHold(ctx, "u", "payment", "Please.") },
	} {
		got, err := step()
		s.must(err)
		r := s.seen[len(s.seen)-1]
		name, body, _ := strings.Cut(path, " ")
		if got.UUID != "u" || r.Method != http.MethodPost || r.URL.Path != "/business/certificate-applications/u/"+name || !strings.Contains(string(r.body), body) || body == "" && len(r.body) > 0 {
			t.Errorf("%s: request %s %s, body %s, want POST to this step with this content", path, r.Method, r.URL.Path, r.body)
		}
	}
}

// TestConflictOfReviewersIsFinal checks that a call is not repeated after a conflict between two reviewers.
func TestConflictOfReviewersIsFinal(t *testing.T) {
	t.Parallel()
	s := newStub(t, func(w http.ResponseWriter, _ *seen, _ int) {
		respond(w, http.StatusConflict, `{"message": "Another reviewer was first."}`)
	})
	if _, err := s.client.Claim(t.Context(), "u"); !errors.Is(err, ErrConflict) || len(s.seen) != 1 {
		t.Errorf("error = %v after %d attempts, want ErrConflict after one", err, len(s.seen))
	}
}

func TestListsOfOffersAndApplications(t *testing.T) {
	t.Parallel()
	s := newStub(t, func(w http.ResponseWriter, _ *seen, _ int) {
		respond(w, http.StatusOK, `{"data": [{"id": null, "uuid": "u"}], "links": {"next": null}, "meta": {"next_cursor": null}}`)
	})
	f := ApplicationFilter{
		Status: InReview, Offer: "transcript", ApplicantEmail: "a@b.c", Search: "ada", Hold: "any", CreatedFrom: "2026-01-01", CreatedTo: "2026-01-31",
		SortField: "name", SortOrder: "asc",
	}
	for a, err := range s.client.Applications(t.Context(), f) {
		s.must(err)
		if a.UUID != "u" {
			t.Errorf("application = %+v, want the UUID u", a)
		}
	}
	_, err := s.client.ApplicationPage(t.Context(), ApplicationFilter{}, 2, 10)
	s.must(err)
	for _, err := range s.client.Offers(t.Context(), "open") {
		s.must(err)
	}
	want := []string{
		"applicant_email=a%40b.c&created_at_from=2026-01-01&created_at_to=2026-01-31&cursor=&hold=any&offer=transcript&per_page=100&search=ada&sort_field=name&sort_order=asc&status=in_review",
		"page=2&per_page=10", "cursor=&per_page=100&status=open",
	}
	for i, query := range want {
		if got := s.seen[i].URL.RawQuery; got != query {
			t.Errorf("query = %s, want %s", got, query)
		}
	}
}
