package api

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"net/http"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/limit"
	"github.com/certvault/certvault/internal/web"
)

const (
	keyHeader = "Idempotency-Key"
	// maxKey is the maximum length of a key in bytes.
	maxKey = 255
)

// exchange is a POST request and its response. If the request has an Idempotency-Key, the operation
// is performed once, and a later request with the same key and content gets the first response. A handler
// has these steps:
//
//  1. Call API.begin, and defer release.
//  2. Read the content into the fingerprint, with field, file and complete.
//  3. Perform the operation, which calls respondTx in its transaction. The response
//     is stored if and only if the operation is committed.
//  4. Return the result of end, which sends the response and may store the error of invalid input.
type exchange struct {
	api  *API
	call *call

	// claim is the claim of the key for a new request. stored is the response that is already stored for
	// the key. One of them is nil. Without a key, both are nil.
	claim  *limit.Claim
	stored *limit.StoredResponse
	// content computes the fingerprint: the SHA-256 of the fields in their order, and of the
	// digests of files. The same form with another boundary has the same fingerprint. Without a
	// key, content is nil.
	content hash.Hash
	// whole reports whether all content is in the fingerprint.
	whole bool

	response limit.StoredResponse
	// settled reports whether a response is stored for the claimed key.
	settled bool
}

// begin claims the idempotency key of a request, if the request has a key. If another request has
// claimed the key, begin returns fault.Conflict.
func (a *API) begin(c *call) (*exchange, error) {
	x := &exchange{api: a, call: c}
	key, err := idempotencyKey(c.Request)
	if err != nil || key == "" {
		return x, err
	}
	x.content = sha256.New()
	x.claim, x.stored, err = a.Keys.Begin(c.Context(), limit.Scope{
		InstitutionID: c.institution.ID, TokenID: c.token.ID, Method: c.Method, Path: c.URL.Path, Key: key,
	})
	return x, err
}

// isRepeated reports whether a response is already stored for the key of the request.
func (x *exchange) isRepeated() bool { return x.stored != nil }

// errRepeated ends the handling of a repeated request before its operation is performed. Handlers pass
// errRepeated to end, which calls replay.
var errRepeated = errors.New("the request has a stored response")

// complete records that all content is in the fingerprint. If the request is repeated, it returns
// errRepeated, and the operation must not be performed.
func (x *exchange) complete() error {
	x.whole = true
	if x.isRepeated() {
		return errRepeated
	}
	return nil
}

// respondTx sets the response and, if the request has a key, stores the response in the transaction
// of the operation. It returns an error if the token is no longer valid, so that no operation is
// committed for a revoked token.
func (x *exchange) respondTx(ctx context.Context, tx *db.Tx, status int, content any) (err error) {
	if err := x.api.Tokens.CheckTx(ctx, tx, x.call.token); err != nil {
		return err
	}
	x.response.Fingerprint, x.response.Status = x.fingerprint(), status
	if x.response.Body, err = web.JSON(content); err != nil || x.claim == nil {
		return err
	}
	return x.claim.StoreTx(ctx, tx, &x.response)
}

// withCertificate returns a function that calls respondTx with a response of text and the certificate.
func (x *exchange) withCertificate(status int, text string) cert.TxFunc {
	return func(ctx context.Context, tx *db.Tx, c *cert.Certificate) error {
		data, err := x.api.wireAll(ctx, tx, x.call.institution, c)
		if err != nil {
			return err
		}
		return x.respondTx(ctx, tx, status, message{Message: text, Data: data[0]})
	}
}

// end sends the response, or returns the error for the response. err is the error of reading the
// request or of the operation. For a repeated request whose content is complete, end calls replay.
//
// If err is fault.Invalid and the request has a key, end also stores the error response. It does not
// store the response if the content was not read to its end, because the fingerprint is then
// incomplete, or if the response is larger than limit.MaxResponse.
func (x *exchange) end(w http.ResponseWriter, err error) error {
	switch {
	case x.isRepeated() && x.whole:
		return x.replay(w)
	case err == nil && x.response.Status == 0:
		return errors.New("an operation was performed without a response")
	case err == nil:
		x.settled = true
		web.SendJSON(w, x.response.Status, x.response.Body)
		return nil
	case x.claim == nil || !x.whole || !fault.Is(err, fault.Invalid):
		return err
	}
	status, problem := web.ProblemOf(w, x.call.Request, withMessages(err))
	text, jsonErr := web.JSON(problem)
	if jsonErr != nil || len(text) > limit.MaxResponse {
		return err
	}
	if storeErr := x.claim.Store(x.call.Context(), &limit.StoredResponse{Fingerprint: x.fingerprint(), Status: status, Body: text}); storeErr != nil {
		return storeErr
	}
	x.settled = true
	return err
}

// replay sends the stored response if the request has the same content as the first request.
// Otherwise replay returns fault.Invalid.
func (x *exchange) replay(w http.ResponseWriter) error {
	if x.fingerprint() != x.stored.Fingerprint {
		x.api.Keys.Reused()
		return fault.OfField(keyHeader, "This Idempotency-Key was used with other content. Use a new key for a new request.")
	}
	w.Header().Set("Idempotency-Replayed", "true")
	w.Header().Set("Cache-Control", "no-store")
	web.SendJSON(w, x.stored.Status, x.stored.Body)
	return nil
}

// release releases the claimed key, unless a response is stored for it.
func (x *exchange) release() {
	if x.claim == nil || x.settled {
		return
	}
	// The client may have disconnected, which cancels the context of the request.
	ctx := context.WithoutCancel(x.call.Context())
	if err := x.claim.Release(ctx); err != nil {
		x.api.Log.WarnContext(ctx, "an idempotency key could not be released; the next sweep tries again", slog.Any("error", err))
	}
}

// field adds a field to the fingerprint. The caller writes the value of the field to content, and
// then calls end.
func (x *exchange) field(name string) (content io.Writer, end func()) {
	if x.content == nil {
		return io.Discard, func() {}
	}
	h := sha256.New()
	return h, func() { x.add('f', name, h.Sum(nil)) }
}

// file adds the digest of a file to the fingerprint.
func (x *exchange) file(name string, digest [sha256.Size]byte) {
	if x.content != nil {
		x.add('F', name, digest[:])
	}
}

// add adds a field or a file to the fingerprint. The length of the name makes the concatenation
// unambiguous.
func (x *exchange) add(kind byte, name string, digest []byte) {
	var head [9]byte
	head[0] = kind
	binary.BigEndian.PutUint64(head[1:], uint64(len(name)))
	x.content.Write(head[:])
	x.content.Write([]byte(name))
	x.content.Write(digest)
}

// fingerprint returns the digest of the content. Without a key, the digest is zero.
func (x *exchange) fingerprint() (sum [sha256.Size]byte) {
	if x.content != nil {
		x.content.Sum(sum[:0])
	}
	return sum
}

// idempotencyKey returns the key of a request, or "" if the request has no key. For a malformed key
// it returns fault.Invalid.
func idempotencyKey(r *http.Request) (string, error) {
	values := r.Header.Values(keyHeader)
	if len(values) == 0 {
		return "", nil
	}
	key := values[0]
	valid := len(values) == 1 && len(key) >= 1 && len(key) <= maxKey
	for i := range len(key) {
		valid = valid && key[i] > ' ' && key[i] < 0x7f
	}
	if !valid {
		return "", fault.OfField(keyHeader,
			fmt.Sprintf("The Idempotency-Key header must be given once, with 1 to %d visible ASCII characters and no spaces.", maxKey))
	}
	return key, nil
}
