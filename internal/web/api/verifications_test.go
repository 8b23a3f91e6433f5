package api

import (
	"reflect"
	"testing"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// TestVerificationsOfRecords checks the numbers of verifications in views, in lists and in the response
// to an operation. If the institution hides names, numbers below 3 are null.
func TestVerificationsOfRecords(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d, 0)
		made := v.upload("diploma.pdf")
		path := "/business/certificate-vault/" + made["uuid"].(string)
		check := func(name string, want any) {
			t.Helper()
			numbers := map[string]any{"total": want, "last_30_days": want}
			if got := data(t, v.get(path))["verifications"]; !reflect.DeepEqual(got, numbers) {
				t.Errorf("%s: the view has %v, want %v", name, got, numbers)
			}
			list := v.get("/business/certificate-vault").json(t)["data"].([]any)
			if got := list[0].(map[string]any)["verifications"]; !reflect.DeepEqual(got, numbers) {
				t.Errorf("%s: the list has %v, want %v", name, got, numbers)
			}
		}
		hide := func(hidden bool) {
			t.Helper()
			if err := v.Accounts.SetPublic(t.Context(), v.inst.ID, account.Public{HideName: hidden}); err != nil {
				t.Fatal(err)
			}
		}
		for n := range 4 {
			if n > 0 {
				v.Verifications.Count(int64(made["id"].(float64)))
			}
			if err := v.Verifications.Fold(t.Context()); err != nil {
				t.Fatal(err)
			}
			hide(false)
			check("names are public", float64(n))
			hide(true)
			if n < 3 {
				check("names are hidden", nil)
			} else {
				check("names are hidden", float64(n))
			}
		}
		revoked := data(t, v.postJSON(path+"/revoke", `{"reason": "In error"}`))
		if got, want := revoked["verifications"], (map[string]any{"total": 3.0, "last_30_days": 3.0}); !reflect.DeepEqual(got, want) {
			t.Errorf("the response to the revocation has %v, want %v", got, want)
		}
	})
}
