package pdf

import (
	"bytes"
	"testing"
)

// Each of several updates of the same document can change a page that is a direct
// object of /Kids.
func TestRepeatedUpdatesOfDirectPage(t *testing.T) {
	t.Parallel()
	file := []byte("%PDF-1.4\n1 0 obj\n<</Type/Catalog/Pages 2 0 R>>\nendobj\n2 0 obj\n<</Type/Pages/Count 1/Kids[<</Type/Page/MediaBox[0 0 9 9]>>]>>\nendobj\n" +
		"trailer\n<</Root 1 0 R/Size 3>>\n")
	doc, err := Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	page, err := doc.Page(0)
	if err != nil {
		t.Fatal(err)
	}
	for attempt := range 3 {
		u := doc.Update()
		u.SetPage(page, u.PageDict(page).Clone().Set("First", Integer(1)))
		u.SetPage(page, u.PageDict(page).Clone().Set("Second", Integer(2)))
		tail, err := u.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		whole := append(bytes.Clone(file), tail...)
		updated, err := Open(bytes.NewReader(whole), int64(len(whole)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := updated.Page(0)
		if err != nil {
			t.Fatal(err)
		}
		if got.Dict.Get("First") == nil || got.Dict.Get("Second") == nil {
			t.Fatalf("update %d: page = %v, want /First and /Second", attempt, got.Dict)
		}
	}
}
