package cert

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/seal"
)

func TestSealingStoresVerifiedPDF(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		var stamp seal.Stamp
		var original seal.Original
		v.sealer.seal = func(_ context.Context, o seal.Original, s seal.Stamp) (*seal.Verified, error) {
			stamp, original = s, o
			made, err := sealed(o, []byte(tailText), false)
			made.Notices = []seal.Notice{{Code: "second", Message: "Second."}, {Code: "first", Message: "Again."}}
			return made, err
		}
		content := samplePDF("a diploma", 0)
		c := v.upload(func(u *Upload) { u.File.Notices = []seal.Notice{{Code: "first", Message: "First."}} })
		v.clock.Advance(time.Minute)
		got := v.approved(c)
		if stamp.ReferenceID != c.ReferenceID || stamp.VerifyURL != "https://vault.example/verify/"+c.ReferenceID ||
			stamp.Institution != v.inst.Name || stamp.Placement.Mode != seal.Auto || stamp.Placement.Page != 1 {
			t.Errorf("stamp = %+v, want the reference id, the address, the institution and the automatic placement on page 1", stamp)
		}
		if original.Type != seal.PDF || original.SHA256 != sha256.Sum256(content) || original.Size != int64(len(content)) || len(original.State) == 0 {
			t.Errorf("original = %+v, want the type, digest, size and hash state of the uploaded file", original)
		}
		whole := append(bytes.Clone(content), tailText...)
		if got.Verified.SHA256 != sha256.Sum256(whole) || got.Verified.Size != int64(len(whole)) || got.Verified.Whole {
			t.Errorf("verified PDF = %+v, want the digest and size of the original followed by the tail", got.Verified)
		}
		now := db.Time(db.Micros(v.clock.Now()))
		if got.ApprovedAt == nil || !got.ApprovedAt.Equal(now) || !got.UpdatedAt.Equal(now) || !got.CreatedAt.Equal(c.CreatedAt) {
			t.Errorf("approved at %v, updated at %v, want both at %v, and an unchanged time of creation", got.ApprovedAt, got.UpdatedAt, now)
		}
		if got.Placement != "bottom-right" || got.PlacementPage != 1 || got.PlacementBox == nil || *got.PlacementBox != (seal.Box{0.5, 0.5, 0.75, 1}) {
			t.Errorf("placement = %s, page = %d, box = %v, want the result of the sealer", got.Placement, got.PlacementPage, got.PlacementBox)
		}
		if want := []seal.Notice{{Code: "first", Message: "First."}, {Code: "second", Message: "Second."}}; !reflect.DeepEqual(got.Notices, want) {
			t.Errorf("notices = %+v, want %+v", got.Notices, want)
		}
		// A second run of the job changes nothing.
		before := v.snapshot(c.UUID)
		if err := v.work(t.Context(), c, 1); err != nil {
			t.Fatal(err)
		}
		if after := v.snapshot(c.UUID); !reflect.DeepEqual(before, after) || len(v.keys()) != 2 {
			t.Errorf("the second run of the job changed the record, events, jobs or files: %+v, files = %v", after, v.keys())
		}
	})
}

func TestRefusalFailsWithoutRetry(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		v.sealer.seal = func(context.Context, seal.Original, seal.Stamp) (*seal.Verified, error) {
			return nil, fmt.Errorf("placing the stamp: %w", &seal.Refusal{Code: "no_room", Reason: "There is no room."})
		}
		c := v.upload(nil)
		if err := v.work(t.Context(), c, 1); err != nil {
			t.Fatal(err)
		}
		got := v.get(c.UUID)
		if got.Status != Failed || got.Failure == nil || *got.Failure != (Failure{Code: "no_room", Message: "There is no room."}) {
			t.Errorf("status = %s, failure = %+v, want failed with the code and reason of the refusal", got.Status, got.Failure)
		}
		events := v.events()
		if last := events[len(events)-1]; last.Name != "certificate_application.failed" {
			t.Errorf("events = %+v, want certificate_application.failed as the last event", events)
		}
	})
}

func TestTransientFaultIsRetried(t *testing.T) {
	t.Parallel()
	transient := errors.New("the authority is unavailable")
	for _, attempts := range []int{1, 2} {
		t.Run(fmt.Sprint(attempts), func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				v := newVault(t, d, func(c *Config) { c.Attempts = attempts })
				v.sealer.seal = func(context.Context, seal.Original, seal.Stamp) (*seal.Verified, error) { return nil, transient }
				c := v.upload(nil)
				if jobs := v.jobs(); jobs[0].MaxAttempts != attempts {
					t.Fatalf("the job has %d attempts, want %d", jobs[0].MaxAttempts, attempts)
				}
				for n := 1; n < attempts; n++ {
					before := v.snapshot(c.UUID)
					if err := v.work(t.Context(), c, n); !errors.Is(err, transient) {
						t.Errorf("attempt %d: err = %v, want the transient error, so that the queue retries", n, err)
					}
					if after := v.snapshot(c.UUID); !reflect.DeepEqual(before, after) {
						t.Errorf("attempt %d changed the record, events or jobs", n)
					}
				}
				if err := v.work(t.Context(), c, attempts); err != nil {
					t.Errorf("last attempt: err = %v, want nil, so that the queue does not retry", err)
				}
				got := v.get(c.UUID)
				if got.Status != Failed || got.Failure.Code != "processing_error" || strings.Contains(got.Failure.Message, transient.Error()) {
					t.Errorf("status = %s, failure = %+v, want failed with processing_error and without the text of the error", got.Status, got.Failure)
				}
				// A certificate that is approved after a retry has no failure.
				v.sealer.seal = func(_ context.Context, o seal.Original, _ seal.Stamp) (*seal.Verified, error) {
					return sealed(o, []byte(tailText), false)
				}
				if _, err := v.Retry(t.Context(), v.inst.ID, c.UUID, nil); err != nil {
					t.Fatal(err)
				}
				if got := v.approved(c); got.Failure != nil {
					t.Errorf("failure of a certificate that was approved after a retry = %+v, want none", got.Failure)
				}
			})
		})
	}
}

func TestFailureCodes(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, t.TempDir(), "")
	v := newVault(t, d, func(c *Config) { c.Attempts = 1 })
	for err, code := range map[error]string{
		context.DeadlineExceeded: "timeout",
		errors.New("any other"):  "processing_error",
	} {
		v.sealer.seal = func(context.Context, seal.Original, seal.Stamp) (*seal.Verified, error) {
			return nil, fmt.Errorf("sealing: %w", err)
		}
		c := v.upload(titled(code))
		if err := v.work(t.Context(), c, 1); err != nil {
			t.Fatal(err)
		}
		if got := v.get(c.UUID); got.Failure == nil || got.Failure.Code != code || got.Failure.Message == "" {
			t.Errorf("error %v: failure = %+v, want the code %s", err, got.Failure, code)
		}
	}
	c := v.upload(titled("missing"))
	if err := v.folder.Delete(t.Context(), c.File.Key); err != nil {
		t.Fatal(err)
	}
	if err := v.work(t.Context(), c, 1); err != nil {
		t.Fatal(err)
	}
	if got := v.get(c.UUID); got.Failure == nil || got.Failure.Code != "original_missing" {
		t.Errorf("missing original: failure = %+v, want original_missing", got.Failure)
	}
	c = v.upload(titled("truncated"))
	if err := os.WriteFile(v.file(c.File.Key), []byte("%PDF"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := v.work(t.Context(), c, 1); err != nil {
		t.Fatal(err)
	}
	if got := v.get(c.UUID); got.Failure == nil || got.Failure.Code != "original_damaged" {
		t.Errorf("truncated original: failure = %+v, want original_damaged", got.Failure)
	}
}

// deadlineContext is a context whose deadline is exceeded after done is closed.
type deadlineContext struct {
	context.Context //nolint:containedctx // the type implements a context

	done chan struct{}
}

func (e deadlineContext) Done() <-chan struct{} { return e.done }

func (e deadlineContext) Err() error {
	select {
	case <-e.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// The failure after the last attempt is stored, although the context has ended.
func TestTimeoutCountsAsAnAttempt(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d, func(c *Config) { c.Attempts = 1 })
		expiring := deadlineContext{context.Background(), make(chan struct{})}
		v.sealer.seal = func(ctx context.Context, _ seal.Original, _ seal.Stamp) (*seal.Verified, error) {
			close(expiring.done)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		c := v.upload(nil)
		if err := v.work(expiring, c, 1); err != nil {
			t.Fatal(err)
		}
		if got := v.get(c.UUID); got.Status != Failed || got.Failure.Code != "timeout" {
			t.Errorf("status = %s, failure = %+v, want failed with timeout", got.Status, got.Failure)
		}
	})
}

func TestRevokedWhileSealingStaysRevoked(t *testing.T) {
	t.Parallel()
	for name, outcome := range map[string]func(o seal.Original) (*seal.Verified, error){
		"sealing succeeds": func(o seal.Original) (*seal.Verified, error) { return sealed(o, []byte(tailText), false) },
		"sealer refuses": func(seal.Original) (*seal.Verified, error) {
			return nil, &seal.Refusal{Code: "no_room", Reason: "No room."}
		},
		"sealer fails": func(seal.Original) (*seal.Verified, error) { return nil, errors.New("a fault") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				v := newVault(t, d, func(c *Config) { c.Attempts = 1 })
				c := v.upload(nil)
				v.sealer.seal = func(ctx context.Context, o seal.Original, _ seal.Stamp) (*seal.Verified, error) {
					if _, err := v.Revoke(ctx, v.inst.ID, c.UUID, Revocation{Reason: "withdrawn"}); err != nil {
						t.Error(err)
					}
					return outcome(o)
				}
				if err := v.work(t.Context(), c, 1); err != nil {
					t.Errorf("work: err = %v, want nil", err)
				}
				got := v.get(c.UUID)
				if got.Status != Revoked || got.Verified != nil || got.Failure != nil || got.ApprovedAt != nil {
					t.Errorf("status = %s, verified PDF = %v, failure = %v, want revoked without verified PDF, failure and approval", got.Status, got.Verified, got.Failure)
				}
				events := v.events()
				if len(events) != 2 || events[1].Name != "certificate_application.revoked" {
					t.Errorf("events = %+v, want two, the second certificate_application.revoked", events)
				}
				if keys := v.keys(); len(keys) != 1 || keys[0] != c.File.Key {
					t.Errorf("files = %v, want only the original", keys)
				}
			})
		})
	}
}

// If two workers seal the same certificate, one of them approves it. The file of the other worker is
// deleted.
func TestTwoWorkersOnOneCertificate(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		c := v.upload(nil)
		var started sync.WaitGroup
		started.Add(2)
		v.sealer.seal = func(_ context.Context, o seal.Original, _ seal.Stamp) (*seal.Verified, error) {
			started.Done()
			started.Wait()
			return sealed(o, []byte(tailText), false)
		}
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if err := v.work(t.Context(), c, 1); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		got := v.get(c.UUID)
		if got.Status != Approved || len(v.events()) != 2 {
			t.Errorf("status = %s, events = %+v, want approved and 2 events", got.Status, v.events())
		}
		content, err := v.OpenVerified(t.Context(), got)
		if err != nil {
			t.Fatal(err)
		}
		if err := content.Close(); err != nil {
			t.Error(err)
		}
		if keys := v.keys(); len(keys) != 2 {
			t.Errorf("files = %v, want the original and one tail", keys)
		}
	})
}

// If the placement is automatic, the sealer receives the layouts of earlier certificates of the same
// institution, latest first.
func TestEarlierPositionsAreReused(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		var placement seal.Placement
		layout := seal.Layout{Width: 595, Height: 842, Box: seal.Box{0.125, 0.25, 0.5, 0.75}}
		v.sealer.seal = func(_ context.Context, o seal.Original, s seal.Stamp) (*seal.Verified, error) {
			placement = s.Placement
			made, err := sealed(o, []byte(tailText), false)
			made.Layout = layout
			return made, err
		}
		v.approved(v.upload(titled("first")))
		if len(placement.EarlierLayouts) != 0 {
			t.Errorf("EarlierLayouts passed to the sealer for the first file = %+v, want none", placement.EarlierLayouts)
		}
		v.clock.Advance(time.Second)
		v.approved(v.upload(titled("second")))
		if !reflect.DeepEqual(placement.EarlierLayouts, []seal.Layout{layout}) {
			t.Errorf("EarlierLayouts passed to the sealer for the second file = %+v, want the layout of the first file", placement.EarlierLayouts)
		}
		v.clock.Advance(time.Second)
		layout = seal.Layout{Width: 842, Height: 595, Box: seal.Box{0, 0, 0.5, 0.5}}
		v.approved(v.upload(titled("third")))
		v.approved(v.upload(titled("fourth")))
		if len(placement.EarlierLayouts) != 2 || placement.EarlierLayouts[0] != layout {
			t.Errorf("EarlierLayouts passed to the sealer for the fourth file = %+v, want 2 layouts, latest first", placement.EarlierLayouts)
		}
		other := v.institution("OTH")
		v.approved(v.upload(func(u *Upload) { u.Institution = other }))
		if len(placement.EarlierLayouts) != 0 {
			t.Errorf("EarlierLayouts passed to the sealer for a file of another institution = %+v, want none", placement.EarlierLayouts)
		}
		if err := SetPolicy(t.Context(), d, other.ID, &Policy{Placement: seal.TopLeft, Page: 2}); err != nil {
			t.Fatal(err)
		}
		v.approved(v.upload(func(u *Upload) { u.Institution, u.Title = other, "chosen" }))
		if placement.Mode != seal.TopLeft || placement.Page != 2 || len(placement.EarlierLayouts) != 0 {
			t.Errorf("placement = %+v, want the policy of the institution", placement)
		}
	})
}

// Only the latest positions are stored, so that files with many page sizes do not fill the table.
func TestOldPositionsAreDeleted(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		store := func(institution int64, width int) {
			v.clock.Advance(time.Second)
			if err := d.Tx(t.Context(), func(tx *db.Tx) error {
				return storeLayoutTx(t.Context(), tx, institution, seal.Layout{Width: width, Height: 842}, db.Micros(v.clock.Now()))
			}); err != nil {
				t.Fatal(err)
			}
		}
		other := v.institution("OTH")
		store(other.ID, 1)
		for width := range maxLayouts + 4 {
			store(v.inst.ID, width+1)
		}
		widths, err := db.Column[int](d.QueryContext(t.Context(), `SELECT width FROM stamp_layouts WHERE institution_id = $1 ORDER BY width`, v.inst.ID))
		if err != nil || len(widths) != maxLayouts || widths[0] != 5 {
			t.Errorf("widths of the stored positions = %v, %v; want the latest %d", widths, err, maxLayouts)
		}
		if n, err := db.Column[int](d.QueryContext(t.Context(), `SELECT width FROM stamp_layouts WHERE institution_id = $1`, other.ID)); err != nil || len(n) != 1 {
			t.Errorf("positions of another institution = %v, %v; want one", n, err)
		}
	})
}

func TestPolicyIsCheckedAndStored(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		ctx := t.Context()
		box := func(b seal.Box) *seal.Box { return &b }
		for _, tc := range []struct {
			name   string
			policy Policy
			field  string
		}{
			{"corner of page 3", Policy{Placement: seal.TopLeft, Page: 3}, ""},
			{"exact box", Policy{Placement: seal.Exact, Page: 1, Box: box(seal.Box{0, 0.25, 0.5, 1}), RefuseActive: true}, ""},
			{"auto again", Policy{Placement: seal.Auto, Page: 1}, ""},
			{"unknown placement", Policy{Placement: "middle", Page: 1}, "placement"},
			{"placement that cannot be chosen", Policy{Placement: seal.Cover, Page: 1}, "placement"},
			{"page 0", Policy{Placement: seal.Auto}, "placement_page"},
			{"page 10,001", Policy{Placement: seal.Auto, Page: 10_001}, "placement_page"},
			{"exact without box", Policy{Placement: seal.Exact, Page: 1}, "placement_box"},
			{"box without exact", Policy{Placement: seal.Auto, Page: 1, Box: box(seal.Box{0, 0, 1, 1})}, "placement_box"},
			{"box off the page", Policy{Placement: seal.Exact, Page: 1, Box: box(seal.Box{0, 0, 1.1, 1})}, "placement_box"},
			{"empty box", Policy{Placement: seal.Exact, Page: 1, Box: box(seal.Box{0.5, 0, 0.5, 1})}, "placement_box"},
		} {
			before, err := ReadPolicy(ctx, d, v.inst.ID)
			if err != nil {
				t.Fatal(err)
			}
			err = SetPolicy(ctx, d, v.inst.ID, &tc.policy)
			want := &tc.policy
			if tc.field != "" {
				want = before
			}
			if fields := fieldsOf(err); (err == nil) != (tc.field == "") || tc.field != "" && (len(fields) != 1 || fields[tc.field] == "") {
				t.Errorf("%s: err = %v, want a problem of the field %q, or nil if no field is named", tc.name, err, tc.field)
			}
			if got, err := ReadPolicy(ctx, d, v.inst.ID); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: policy = %+v, err = %v; want %+v", tc.name, got, err, want)
			}
		}
	})
}

func TestRequestedPositionIsUsed(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		var got seal.Placement
		seals := v.sealer.seal
		v.sealer.seal = func(ctx context.Context, o seal.Original, stamp seal.Stamp) (*seal.Verified, error) {
			got = stamp.Placement
			return seals(ctx, o, stamp)
		}
		box := seal.Box{0.1, 0.1, 0.3, 0.2}
		v.approved(v.upload(func(u *Upload) { u.Wanted = &RequestedPlacement{Mode: seal.Exact, Page: 1, Box: &box} }))
		if got.Mode != seal.Exact || got.Box != box || got.Page != 1 {
			t.Errorf("placement = %+v, want the requested position", got)
		}
		v.approved(v.upload(titled("MSc")))
		if got.Mode != seal.Auto {
			t.Errorf("placement = %+v, want the policy of the institution", got)
		}
		u := v.input(v.inst)
		u.Title, u.Wanted = "PhD", &RequestedPlacement{Mode: "middle", Page: 1}
		if _, err := v.Upload(t.Context(), u); !fault.Is(err, fault.Invalid) {
			t.Errorf("unknown placement: err = %v, want Invalid", err)
		}
	})
}
