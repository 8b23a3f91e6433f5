package pdf

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/certvault/certvault/internal/pdf/pdftest"
)

// An update of a snapshot has the same bytes as the same update of the document, even if several
// goroutines write updates.
func TestSnapshot(t *testing.T) {
	files := map[string][]byte{"table": onePageFile(), "stream": compressed(t), "no newline": bytes.TrimRight(onePageFile(), "\n")}
	for _, name := range []string{"enc-empty-user/aes256-r6-owner.pdf", "structure/hybrid-xref-word.pdf"} {
		data, err := os.ReadFile(filepath.Join(corpus, "pdf", name))
		if err != nil {
			continue // the corpus is missing
		}
		files[name] = data
	}
	for name, data := range files {
		t.Run(name, func(t *testing.T) {
			open := func() *Document {
				d, err := Open(bytes.NewReader(data), int64(len(data)))
				if err != nil {
					t.Fatal(err)
				}
				return d
			}
			write := func(u *Update, page Ref) []byte {
				ref := u.Add(NewStream(nil, []byte("0 0 20 20 re f")))
				u.Set(page, NewDict(Entry{"Type", Name("Page")}, Entry{"Contents", ref}, Entry{"Note", String("text")}))
				u.SetTrailer("Info", u.Add(NewDict(Entry{"Title", TextString("Title")})))
				out, err := u.Bytes()
				if err != nil {
					t.Error(err)
				}
				return out
			}
			d := open()
			page, err := d.Page(0)
			if err != nil {
				t.Fatal(err)
			}
			want := write(open().Update(), page.Ref)
			s, err := d.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			var group sync.WaitGroup
			for range 4 {
				group.Go(func() {
					if got := write(s.Update(), page.Ref); !bytes.Equal(got, want) {
						t.Errorf("the update of the snapshot is\n%q, want\n%q", got, want)
					}
				})
			}
			group.Wait()
		})
	}
}

// Snapshot fails if the page tree has a wrong /Count.
func TestSnapshotOfDamaged(t *testing.T) {
	objects := onePage("")
	objects[1] = "<</Type/Pages/Kids[3 0 R]/Count 7/MediaBox[0 0 200 100]>>"
	data := pdftest.File("", objects...)
	d, err := Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Snapshot(); !errors.Is(err, ErrDamaged) {
		t.Errorf("Snapshot returned error %v, want ErrDamaged", err)
	}
}
