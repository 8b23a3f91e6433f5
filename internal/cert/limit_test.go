package cert_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/vaulttest"
)

// TestLimitHoldsUnderConcurrency uploads more certificates concurrently than the limit allows.
func TestLimitHoldsUnderConcurrency(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		v := vaulttest.New(t, d)
		inst := v.Institution("NWU", "Northern")
		first := v.Upload(inst, "First", "a.pdf")
		if err := v.Accounts.SetLimits(ctx, inst.ID, account.Limits{Certificates: 4}); err != nil {
			t.Fatal(err)
		}
		limited, err := v.Accounts.Institution(ctx, inst.ID)
		if err != nil {
			t.Fatal(err)
		}
		var accepted, refused atomic.Int64
		var message atomic.Value
		var group sync.WaitGroup
		for i := range 10 {
			group.Go(func() {
				file := first.File
				_, err := v.Certs.Upload(ctx, cert.Upload{
					Institution: limited, Context: cert.SingleUpload, Title: "Diploma", FullName: "Ada", Email: fmt.Sprintf("a%d@example.org", i), File: &file,
				})
				switch {
				case err == nil:
					accepted.Add(1)
				case fault.Is(err, fault.Forbidden):
					refused.Add(1)
					message.Store(err.Error())
				default:
					t.Error(err)
				}
			})
		}
		group.Wait()
		if accepted.Load() != 3 || refused.Load() != 7 {
			t.Fatalf("%d uploads accepted and %d refused, want 3 and 7", accepted.Load(), refused.Load())
		}
		text, _ := message.Load().(string)
		for _, want := range []string{"monthly limit of the institution “Northern” on new certificates", "Limit: 4; used: 4.", "The next month begins on "} {
			if !strings.Contains(text, want) {
				t.Errorf("message = %q, want %q in it", text, want)
			}
		}
	})
}
