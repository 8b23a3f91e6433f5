package mail

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"mime"
	"mime/multipart"
	stdmail "net/mail"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// pictured returns a message with a logo and the picture of a page.
func pictured(t *testing.T) Message {
	t.Helper()
	m, err := Letter{
		From: "University", Logo: "logo:1", Heading: "Your certificate is ready", Paragraphs: []string{"Issued <!--logo[--> to Ada."},
		Certificate: &Certificate{Title: "BSc", Name: "Ada", Issued: "Issued today", Picture: "page:1", PictureText: "First page"},
		Button:      &Button{"View certificate", "https://vault.example/c/SECRET"}, Links: []Button{{"Add to LinkedIn", "https://www.linkedin.com/x"}, {"Download PDF", "https://vault.example/c/PDF"}},
		After: []string{"No account needed."}, Why: "You received this.",
	}.Message(Address{Name: "Ada", Email: "ada@example.org"}, "Your certificate")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// parse writes a message to an outbox and reads the file. It returns the structure of the parts, such as
// "alternative(text/plain related(text/html image/png))", the bodies of the parts by type,
// and the Content-ID of each picture under "id of " and its file name.
func parse(t *testing.T, e *Envelope) (structure string, bodies map[string]string) {
	t.Helper()
	dir := t.TempDir()
	o, err := NewOutbox(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Send(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.eml"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files in the outbox = %v, want one file; error %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	m, err := stdmail.ReadMessage(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	bodies = map[string]string{}
	var walk func(contentType string, body io.Reader) string
	walk = func(contentType string, body io.Reader) string {
		kind, params, err := mime.ParseMediaType(contentType)
		if err != nil {
			t.Fatal(err)
		}
		subtype, ok := strings.CutPrefix(kind, "multipart/")
		if !ok {
			content, err := io.ReadAll(body)
			if err != nil {
				t.Fatal(err)
			}
			bodies[kind] = string(content)
			return kind
		}
		var parts []string
		r := multipart.NewReader(body, params["boundary"])
		for {
			part, err := r.NextPart()
			if errors.Is(err, io.EOF) {
				return subtype + "(" + strings.Join(parts, " ") + ")"
			}
			if err != nil {
				t.Fatal(err)
			}
			if id := part.Header.Get("Content-Id"); id != "" {
				bodies["id of "+part.FileName()] = id
			}
			parts = append(parts, walk(part.Header.Get("Content-Type"), part))
		}
	}
	return walk(m.Header.Get("Content-Type"), m.Body), bodies
}

func TestPicturesArePartOfTheHTML(t *testing.T) {
	t.Parallel()
	logo, page := &Image{"image/png", []byte("LOGO"), 120, 32}, &Image{"image/jpeg", []byte("PAGE"), 200, 141}
	for name, tc := range map[string]struct {
		images    map[string]*Image
		structure string
		wants     []string
		not       []string
	}{
		"both pictures": {map[string]*Image{"logo": logo, "page": page}, "alternative(text/plain related(text/html image/png image/jpeg))",
			[]string{`src="cid:logo.id@vault.example" width="120" height="32"`, `src="cid:page.id@vault.example" width="200" height="141" alt="First page"`}, nil},
		"only a page": {map[string]*Image{"page": page}, "alternative(text/plain related(text/html image/jpeg))", []string{"cid:page.id@vault.example"}, []string{"cid:logo"}},
		"no picture":  {nil, "alternative(text/plain text/html)", []string{"BSc", "Issued today"}, []string{"<img", "cid:"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := &Envelope{Message: pictured(t), ID: "id", From: Address{Email: "no-reply@vault.example"}, CreatedAt: createdAt}
			e.Images = func(context.Context) map[string]*Image { return tc.images }
			structure, bodies := parse(t, e)
			if structure != tc.structure {
				t.Errorf("parts = %s, want %s", structure, tc.structure)
			}
			html := bodies["text/html"]
			for _, want := range append(tc.wants, "Issued &lt;!--logo[--&gt; to Ada.") {
				if !strings.Contains(html, want) {
					t.Errorf("the HTML does not contain %s", want)
				}
			}
			for _, not := range append(tc.not, "<!--") {
				if strings.Contains(html, not) {
					t.Errorf("the HTML contains %s", not)
				}
			}
			if tc.images["logo"] != nil && (bodies["id of logo.png"] != "<logo.id@vault.example>" || strings.TrimSpace(bodies["image/png"]) != "TE9HTw==") {
				t.Errorf("logo: id = %s, content = %s, want <logo.id@vault.example> and TE9HTw==", bodies["id of logo.png"], bodies["image/png"])
			}
			for _, want := range []string{"BSc\r\nAda\r\nIssued today", "View certificate:\r\nhttps://vault.example/c/SECRET", "Download PDF:\r\nhttps://vault.example/c/PDF"} {
				if !strings.Contains(bodies["text/plain"], want) {
					t.Errorf("the text does not contain %q: %s", want, bodies["text/plain"])
				}
			}
		})
	}
}

// TestMailWithoutPicture checks that images omits a picture that fails, is too large, does not exist or
// is not ready in time.
func TestMailWithoutPicture(t *testing.T) {
	t.Parallel()
	stopped := make(chan struct{})
	t.Cleanup(func() { close(stopped) })
	m := &Mailer{log: slog.New(slog.DiscardHandler), picture: func(_ context.Context, source string) (*Image, error) {
		switch source {
		case "fails":
			return nil, errors.New("no renderer")
		case "too large":
			return &Image{"image/jpeg", make([]byte, MaxPage+1), 1, 1}, nil
		case "none":
			return nil, ErrNoPicture
		case "never":
			<-stopped
		}
		return &Image{"image/jpeg", []byte(source), 1, 1}, nil
	}}
	list := []Picture{{"a", "fails"}, {"b", "too large"}, {"c", "none"}, {"page", "works"}}
	if got := slices.Collect(maps.Keys(m.images(t.Context(), list))); !slices.Equal(got, []string{"page"}) {
		t.Errorf("images = %v, want only page", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if got := m.images(ctx, []Picture{{"page", "never"}}); len(got) != 0 {
		t.Errorf("images = %v, want none after the time limit", got)
	}
}

// TestPictureIsLoadedForTheJob checks that storing a message loads no pictures, and that the sender can
// load them.
func TestPictureIsLoadedForTheJob(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		loaded := 0
		b.picture = func(_ context.Context, source string) (*Image, error) {
			loaded++
			return &Image{"image/png", []byte(source), 1, 1}, nil
		}
		var id string
		if err := b.d.Tx(t.Context(), func(tx *db.Tx) (err error) {
			id, err = b.EnqueueTx(t.Context(), tx, pictured(t))
			return err
		}); err != nil || loaded != 0 {
			t.Fatalf("storing the message loaded %d pictures, want 0; error %v", loaded, err)
		}
		if err := b.runJob(id, 1); err != nil {
			t.Fatal(err)
		}
		images := b.fake.last.Images(t.Context())
		if len(images) != 2 || string(images["page"].Content) != "page:1" {
			t.Errorf("images = %v, want the logo and the page", images)
		}
		if page := b.Page(t.Context(), &b.fake.last.Message); strings.Count(page, `src="data:image/png;base64,`) != 2 || !strings.Contains(page, `<base target="_blank">`) {
			t.Errorf("page = %s, want two pictures and a base element", page)
		}
	})
}

func TestNoMailServer(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		b.noServer = true
		var results []Status
		b.finished = func(_ context.Context, _ *db.Tx, r Result) error {
			results = append(results, r.Status)
			return nil
		}
		id := b.enqueue(nil)
		if err := b.runJob(id, 1); err != nil {
			t.Fatal(err)
		}
		if b.status(id) != Unsent || !slices.Equal(results, []Status{Unsent}) {
			t.Errorf("status = %s, results = %v, want unsent", b.status(id), results)
		}
		if c, err := b.Count(t.Context()); err != nil || c != (Count{Unsent: 1}) {
			t.Errorf("counts = %+v, error %v, want only Unsent: 1", c, err)
		}
		if n, err := UnsentSince(t.Context(), d); err != nil || n != 1 {
			t.Errorf("UnsentSince = %d, error %v, want 1", n, err)
		}
		b.noServer, b.at = false, b.at.Add(time.Hour)
		if err := b.runJob(b.enqueue(nil), 1); err != nil {
			t.Fatal(err)
		}
		if n, err := UnsentSince(t.Context(), d); err != nil || n != 0 {
			t.Errorf("UnsentSince = %d, error %v, want 0 after a message was sent", n, err)
		}
		b.at = b.at.Add(retention + time.Hour)
		if err := b.Sweep(t.Context()); err != nil || b.count("mails") != 0 {
			t.Errorf("%d records are stored after the retention time, want 0; error %v", b.count("mails"), err)
		}
	})
}

func TestHostIsAName(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{
		"vault.example": "vault.example", "localhost": "Certvault", "x.localhost": "Certvault", "127.0.0.1": "Certvault", "::1": "Certvault", "10.1.2.3": "Certvault",
	} {
		if got := Host(host); got != want {
			t.Errorf("Host(%s) = %s, want %s", host, got, want)
		}
	}
}
