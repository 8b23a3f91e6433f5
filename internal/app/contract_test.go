package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/uuid"

	"github.com/certvault/certvault/client"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/token"
	"github.com/certvault/certvault/internal/webhook"
)

// unserved contains the ids of the operations in the OpenAPI document that the vault does not serve yet.
// It also contains the names of missing behaviors, such as "idempotency". The test fails if the vault
// serves an entry.
var unserved = []string{}

// forPeople contains the routes of pages and files for people. The OpenAPI document does not contain
// them.
var forPeople = []string{
	"GET /{$}", "GET /verify", "GET /setup", "GET /docs", "GET /docs/{page}", "GET /signatures", "GET /.well-known/certvault/root.pem",
	"GET /verify/{reference_id}/card.png", "GET /verify/{reference_id}/certificate.pdf", "GET /verify/{reference_id}/image.png", "GET /logos/{slug}/{digest}",
	"GET /apply/{institution}", "GET /apply/{institution}/{offer}", "POST /verify", "GET /verify/{reference_id}/wallet", "POST /verify/{reference_id}/wallet",
}

// ofProtocols contains the routes that OpenID4VCI 1.0 and SD-JWT VC define for wallets and verifiers,
// and the routes of the pictures to which credentials refer. The OpenAPI document does not contain these
// routes.
var ofProtocols = []string{
	"GET /.well-known/openid-credential-issuer/institutions/{uuid}", "GET /.well-known/oauth-authorization-server/institutions/{uuid}",
	"GET /.well-known/jwt-vc-issuer/institutions/{uuid}", "GET /institutions/{uuid}/openid4vci/offers/{secret}",
	"POST /institutions/{uuid}/openid4vci/token", "POST /institutions/{uuid}/openid4vci/nonce", "POST /institutions/{uuid}/openid4vci/credential",
	"GET /institutions/{uuid}/achievements/{achievement}/{file}", "GET /credentials/type",
}

// served reports whether an operation is served, that is, whether it is not in unserved.
func served(id string) bool { return !slices.Contains(unserved, id) }

// TestDocumentMatchesVault calls every operation of the OpenAPI document on a complete vault, with
// both databases.
func TestDocumentMatchesVault(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short skips this long test; make test/long runs it")
	}
	eachStorage(t, func(t *testing.T, s config.Storage) {
		newDriver(t, s.Database).drive()
	})
}

// drive calls all operations.
func (d *driver) drive() {
	d.Helper()
	d.schemasAreClosed()
	d.routes()
	d.driveCertificates()
	d.driveLists()
	d.driveBatches()
	d.driveTemplates()
	d.driveApplications()
	d.drivePublic()
	d.driveCredentials()
	d.driveReplacement()
	d.driveExpiry()
	d.driveEvents()
	driven := d.checker.Driven()
	for _, o := range d.checker.Operations() {
		if isDriven := slices.Contains(driven, o.ID); isDriven != served(o.ID) {
			d.Errorf("operation %s: called = %v, listed as unserved = %v", o.ID, isDriven, !served(o.ID))
		}
	}
	d.driveRanges()
	d.driveRepetitions()
	d.driveErrors()
	d.checkTraces()
}

// schemasAreClosed checks that the schemas of responses and events allow no unknown fields. With an open
// schema, the other checks would accept any field.
func (d *driver) schemasAreClosed() {
	d.Helper()
	seen := map[*openapi3.Schema]bool{}
	var walk func(where string, s *openapi3.SchemaRef)
	walk = func(where string, s *openapi3.SchemaRef) {
		if s == nil || s.Value == nil || seen[s.Value] {
			return
		}
		seen[s.Value] = true
		isClosed := s.Value.AdditionalProperties.Has != nil && !*s.Value.AdditionalProperties.Has || s.Value.AdditionalProperties.Schema != nil
		if s.Value.Type.Includes("object") && !isClosed {
			d.Errorf("%s: the schema of the object allows unknown fields", where)
		}
		for name, p := range s.Value.Properties {
			walk(where+"."+name, p)
		}
		walk(where+"[]", s.Value.Items)
		for _, list := range []openapi3.SchemaRefs{s.Value.OneOf, s.Value.AnyOf, s.Value.AllOf} {
			for _, schema := range list {
				walk(where, schema)
			}
		}
	}
	for _, o := range d.checker.Operations() {
		if o.Webhook {
			walk(o.ID, o.RequestBody.Value.Content.Get("application/json").Schema)
			continue
		}
		if o.ID == "getOpenAPI" {
			continue // The OpenAPI specification defines the format of this document.
		}
		for status, r := range o.Responses.Map() {
			for kind, content := range r.Value.Content {
				walk(o.ID+" "+status+" "+kind, content.Schema)
			}
		}
	}
}

// routes compares the routes of the vault with the document.
func (d *driver) routes() {
	d.Helper()
	documented := map[string]string{}
	for _, o := range d.checker.Operations() {
		if !o.Webhook {
			documented[o.Method+" "+o.Path] = o.ID
		}
	}
	for _, p := range d.app.patterns {
		if slices.Contains(forPeople, p) || slices.Contains(ofProtocols, p) {
			continue
		}
		id, ok := documented[p]
		if !ok {
			d.Errorf("the route %s is not in the document", p)
		} else if !served(id) {
			d.Errorf("%s is listed as unserved, but its route %s exists", id, p)
		}
	}
	for route, id := range documented {
		if served(id) && !slices.Contains(d.app.patterns, route) {
			d.Errorf("the vault has no route for %s of the document", route)
		}
	}
}

func (d *driver) driveCertificates() {
	d.Helper()
	ctx := d.Context()
	approved := d.approved()
	var pdf bytes.Buffer
	d.must(d.client.Download(ctx, approved.UUID, &pdf))
	if !bytes.HasPrefix(pdf.Bytes(), sample("Ada Lovelace")) {
		d.Error("the verified PDF does not begin with the original")
	}
	d.must(d.client.Fetch(ctx, *approved.PDFPath, io.Discard))
	d.must(d.client.Fetch(ctx, *approved.ImagePath, io.Discard))
	d.must(d.client.Fetch(ctx, approved.QRCodePath, io.Discard))
	d.must(d.client.Fetch(ctx, approved.BarcodePath, io.Discard))

	failed, err := d.client.Await(ctx, d.lost.UUID)
	d.must(err)
	if failed.Failure == nil || failed.Failure.Code != "original_missing" {
		d.Fatalf("failure of the certificate without a file = %+v, want original_missing", failed)
	}
	if _, err := d.client.RetryProcessing(ctx, failed.UUID); err != nil {
		d.Fatal(err)
	}
	if _, err := d.client.RetryProcessing(ctx, approved.UUID); !errors.Is(err, client.ErrInvalidOperation) {
		d.Errorf("a retry of an approved certificate: error = %v, want ErrInvalidOperation", err)
	}
	again, err := d.client.Await(ctx, failed.UUID)
	d.must(err)
	if again.Status.Value != client.Failed {
		d.Errorf("status after the retry = %+v, want failed", again.Status)
	}

	second := d.approved()
	revoked, err := d.client.Revoke(ctx, second.UUID, "Issued in error.", "A note.")
	d.must(err)
	if revoked.Status.Value != client.Revoked || *revoked.RevocationReason != "Issued in error." {
		d.Errorf("the revoked certificate = %+v, want the status revoked and the given reason", revoked)
	}
	if _, err := d.client.Verify(ctx, second.ReferenceID); err != nil {
		d.Error(err)
	}
}

func (d *driver) driveLists() {
	d.Helper()
	ctx := d.Context()
	page, err := d.client.VaultCertificatePage(ctx, client.VaultFilter{Status: client.Approved, ApplicantEmail: "ADA@example.org", Search: "lovelace"}, 1, 10)
	d.must(err)
	if cursor := d.unchecked(http.MethodGet, "/business/certificate-vault?cursor=", d.token(token.All...), nil, ""); (cursor.status == http.StatusOK) != served("cursor of lists") {
		d.Errorf("a list by cursor: status = %d, listed as unserved = %v", cursor.status, !served("cursor of lists"))
	}
	if len(page.Data) != 1 {
		d.Errorf("the list has %d certificates, want 1", len(page.Data))
	}
	_, err = d.client.Templates(ctx)
	d.must(err)
	if served("cursor of lists") {
		d.count("vault certificates", 3, func(yield func(error) bool) {
			for _, err := range d.client.VaultCertificates(ctx, client.VaultFilter{}) {
				if !yield(err) {
					return
				}
			}
		})
	}
	if !served("listCertificates") {
		return
	}
	filter := client.CertificateFilter{
		Search: "lovelace", Status: "generated", IssueDateFrom: "2026-01-01", IssueDateTo: "2026-12-31", GeneratedFrom: "2020-01-01", GeneratedTo: "2999-12-31",
		SortField: "generated_at", SortOrder: "asc",
	}
	list, err := d.client.CertificatePage(ctx, filter, 1, 10)
	d.must(err)
	if len(list.Data) != 1 {
		d.Fatalf("the list of all sources has %d certificates, want 1", len(list.Data))
	}
	found, err := d.client.Certificate(ctx, list.Data[0].ID)
	d.must(err)
	d.must(d.client.DownloadCertificate(ctx, found.ID, io.Discard))
	d.count("certificates", 3, func(yield func(error) bool) {
		for _, err := range d.client.Certificates(ctx, client.CertificateFilter{}) {
			if !yield(err) {
				return
			}
		}
	})
}

// count reads a list to its end and checks that it has want records.
func (d *driver) count(records string, want int, list func(yield func(error) bool)) {
	d.Helper()
	n := 0
	for err := range list {
		d.must(err)
		n++
	}
	if n != want {
		d.Errorf("the list has %d %s, want %d", n, records, want)
	}
}

func (d *driver) driveBatches() {
	d.Helper()
	if !served("uploadFile") {
		return
	}
	ctx := d.Context()
	file, err := client.SeekFile("diploma.pdf", bytes.NewReader(sample("Grace Hopper")))
	d.must(err)
	stored, err := d.client.UploadFile(ctx, file)
	d.must(err)
	entry := client.Entry{Index: 7, CertificateTitle: "Batch entry", FullName: "Grace Hopper", ApplicantEmail: "grace@example.org", FileID: stored.FileID, IssueDate: "2026-06-30"}
	duplicate := entry
	duplicate.Index = 9
	accepted, err := d.client.SubmitBatch(ctx, []client.Entry{entry, duplicate})
	d.must(err)
	batch, err := d.client.AwaitBatch(ctx, accepted.BatchID, nil)
	d.must(err)
	if batch.Status != client.BatchCompletedWithErrors || batch.Approved != 1 || batch.Rejected != 1 {
		d.Errorf("batch = %+v, want 1 approved and 1 rejected entry", batch)
	}
	var indexes []int
	for e, err := range d.client.BatchEntries(ctx, accepted.BatchID) {
		d.must(err)
		indexes = append(indexes, e.Index)
	}
	if !slices.Equal(indexes, []int{7, 9}) {
		d.Errorf("the batch has the entries %v, want 7 and 9", indexes)
	}
	d.count("batches", 1, func(yield func(error) bool) {
		for _, err := range d.client.Batches(ctx) {
			if !yield(err) {
				return
			}
		}
	})
	numbered, err := d.client.BatchPage(ctx, 1, 10)
	d.must(err)
	if len(numbered.Data) != 1 || numbered.Meta.Total == nil || *numbered.Meta.Total != 1 {
		d.Errorf("a page of batches = %+v, want 1 batch", numbered)
	}
	for _, path := range []string{"/business/batches", "/business/batches/" + accepted.BatchID} {
		for query, want := range map[string]int{
			"?per_page=1": 200, "?page=100&per_page=100": 200, "?page=101&per_page=100": 422, "?per_page=101": 422, "?cursor=": 200, "?cursor=x": 422, "?cursor=&page=1": 422,
		} {
			if got := d.send(http.MethodGet, path+query, d.token(token.All...), nil, ""); got != want {
				d.Errorf("%s%s: status = %d, want %d", path, query, got, want)
			}
		}
	}
	fields := map[string]string{"certificate_title": "Other form", "full_name": "Grace Hopper", "applicant_email": "grace@example.org", "file_id": stored.FileID}
	form := url.Values{}
	for name, value := range fields {
		form.Set("entries[3]["+name+"]", value)
	}
	list, err := json.Marshal(map[string]any{"entries": []map[string]string{fields}})
	d.must(err)
	object, err := json.Marshal(map[string]any{"entries": map[string]any{"999999": fields}})
	d.must(err)
	secret := d.token(token.VaultCreate)
	for _, body := range []struct{ kind, text string }{
		{"application/x-www-form-urlencoded", form.Encode()}, {"application/json", string(list)}, {"application/json", string(object)},
	} {
		if status := d.send(http.MethodPost, "/business/certificate-vault/bulk", secret, http.Header{"Content-Type": {body.kind}}, body.text); status != http.StatusAccepted {
			d.Errorf("a batch as %s: status = %d, want 202", body.kind, status)
		}
	}
	invalid := url.Values{"entries[3][full_name]": {""}, "entries[4][file_id]": {uuid.NewString()}}
	if status := d.send(http.MethodPost, "/business/certificate-vault/bulk", secret, http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, invalid.Encode()); status != http.StatusUnprocessableEntity {
		d.Errorf("an invalid batch: status = %d, want 422", status)
	}
}

func (d *driver) drivePublic() {
	d.Helper()
	ctx := d.Context()
	d.must(d.client.Ready(ctx))
	for _, target := range []string{"/healthz", "/openapi.json"} {
		if status := d.send(http.MethodGet, target, "", nil, ""); status != http.StatusOK {
			d.Errorf("%s: status = %d, want 200", target, status)
		}
	}
	if page := d.unchecked(http.MethodGet, "/docs", "", http.Header{"Accept": {"text/html"}}, ""); page.status != http.StatusOK || !strings.HasPrefix(page.header.Get("Content-Type"), "text/html") {
		d.Errorf("/docs: status = %d, Content-Type = %s, want 200 and text/html", page.status, page.header.Get("Content-Type"))
	}
	created := d.approved()
	public := d.clientWith("")
	valid, err := public.Verify(ctx, created.ReferenceID)
	d.must(err)
	if valid.Status != "valid" || *valid.FullName != "Ada Lovelace" {
		d.Errorf("verification = %+v, want a valid certificate", valid)
	}
	if _, err := public.Verify(ctx, "NWU-0000000000000000"); !errors.Is(err, client.ErrNotFound) {
		d.Errorf("an unknown reference id: error = %v, want ErrNotFound", err)
	}
	for path, want := range map[string]int{created.ReferenceID: http.StatusOK, created.ReferenceID + "/badge.svg": http.StatusOK, "NWU-0000000000000000/badge.svg": http.StatusNotFound} {
		if status := d.send(http.MethodGet, "/verify/"+path, "", nil, ""); status != want {
			d.Errorf("/verify/%s: status = %d, want %d", path, status, want)
		}
	}
	var pdf bytes.Buffer
	d.must(d.client.Download(ctx, created.UUID, &pdf))
	if !served("verifyFile") {
		return
	}
	for name, file := range map[string][]byte{"verified": pdf.Bytes(), "original": sample("Ada Lovelace")} {
		if match, err := public.VerifyFile(ctx, bytes.NewReader(file)); err != nil || match.Match != name {
			d.Errorf("the %s file: match = %+v, error = %v, want the match %[1]q", name, match, err)
		}
	}
	if _, err := public.VerifyFile(ctx, strings.NewReader("unknown")); !errors.Is(err, client.ErrNotFound) {
		d.Errorf("an unknown file: error = %v, want ErrNotFound", err)
	}
}

// driveEvents compares the stored body of each delivery, and the received headers and body, with the
// document. It also verifies the signature of each received delivery.
func (d *driver) driveEvents() {
	d.Helper()
	rows, err := d.app.DB.QueryContext(d.Context(), `SELECT body FROM webhook_deliveries ORDER BY id`)
	d.must(err)
	defer rows.Close()
	n := 0
	for rows.Next() {
		var body string
		d.must(rows.Scan(&body))
		if err := d.checker.Delivery(nil, []byte(body)); err != nil {
			d.Error(err)
		}
		n++
	}
	d.must(rows.Err())
	if n == 0 {
		d.Error("the database contains no delivery")
	}
	for _, name := range webhook.Names {
		if d.checker.Document().Webhooks[string(name)] == nil {
			d.Errorf("the event %s is not in the document", name)
		}
	}
	if !served("delivery of events") {
		if len(d.deliveries) > 0 {
			d.Error("events are delivered, but they are listed as unserved")
		}
		return
	}
	for i := range n {
		select {
		case received := <-d.deliveries:
			if _, err := client.VerifyWebhook(received.header, received.body, d.secret); err != nil {
				d.Error(err)
			}
			plain := http.Header{"X-Webhook-Signature": {received.header.Get("X-Webhook-Signature")}}
			if _, err := client.VerifyWebhook(plain, received.body, d.secret); err != nil {
				d.Errorf("the header X-Webhook-Signature alone is not accepted: %v", err)
			}
			if err := d.checker.Delivery(received.header, received.body); err != nil {
				d.Error(err)
			}
		case <-time.After(deliveryTime):
			d.Fatalf("received %d of %d events", i, n)
		}
	}
}

// deliveryTime limits the wait for an event.
const deliveryTime = 30 * time.Second
