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
	// maxKey is the longest key in bytes.
	maxKey = 255
)

// exchange is a POST request and its answer. With an Idempotency-Key the operation is performed
// once, and a later request with the same content gets the first answer. A handler:
//
//  1. calls API.begin, and defers release;
//  2. reads the content into the fingerprint, with field, file and complete;
//  3. performs the operation, which calls answerTx in its transaction: the answer
//     is stored if and only if the operation is committed;
//  4. returns end, which sends the answer, or stores the refusal of invalid input.
type exchange struct {
	api  *API
	call *call

	// claim holds the key, stored is the answer that is stored for it. Without a key, both are nil.
	claim  *limit.Claim
	stored *limit.StoredAnswer
	// content is the fingerprint, nil without a key: the SHA-256 of the fields in
	// their order, and of each file its SHA-256. The same form with another boundary
	// has the same fingerprint.
	content hash.Hash
	// whole reports that all content is in the fingerprint.
	whole bool

	answer limit.StoredAnswer
	// settled reports that an answer is stored for the claimed key.
	settled bool
}

// begin claims the idempotency key of a request, if it has one. While another
// request holds the key, it returns fault.Conflict.
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

// answered reports whether an answer is stored for the key of the request.
func (x *exchange) answered() bool { return x.stored != nil }

// errAnswered stops a handler whose request needs only to be compared with an
// earlier one. It does not leave the package: end sends the stored answer.
var errAnswered = errors.New("the request has a stored answer")

// complete notes that all content is in the fingerprint. If the answer is known,
// it returns errAnswered, and the operation must not be performed.
func (x *exchange) complete() error {
	x.whole = true
	if x.answered() {
		return errAnswered
	}
	return nil
}

// answerTx sets the answer, and stores it in the transaction of the operation.
func (x *exchange) answerTx(ctx context.Context, tx *db.Tx, status int, content any) (err error) {
	x.answer.Fingerprint, x.answer.Status = x.fingerprint(), status
	if x.answer.Body, err = web.JSON(content); err != nil || x.claim == nil {
		return err
	}
	return x.claim.StoreTx(ctx, tx, &x.answer)
}

// withCertificate returns the Then that answers with the certificate of an
// operation.
func (x *exchange) withCertificate(status int, text string) cert.Then {
	return func(ctx context.Context, tx *db.Tx, c *cert.Certificate) error {
		data, err := x.api.wire(c, x.call.institution)
		if err != nil {
			return err
		}
		return x.answerTx(ctx, tx, status, message{Message: text, Data: data})
	}
}

// end answers the request, or returns the error to answer with; err is the error
// of reading the request and of the operation. A refusal as fault.Invalid is
// stored, unless the content was not read to its end and has no fingerprint.
func (x *exchange) end(w http.ResponseWriter, err error) error {
	switch {
	case x.answered() && x.whole:
		return x.replay(w)
	case err == nil && x.answer.Status == 0:
		return errors.New("an operation was performed without an answer")
	case err == nil:
		x.settled = true
		web.SendJSON(w, x.answer.Status, x.answer.Body)
		return nil
	case x.claim == nil || !x.whole || !fault.Is(err, fault.Invalid):
		return err
	}
	status, problem := web.ProblemOf(w, x.call.Request, worded(err))
	text, jsonErr := web.JSON(problem)
	if jsonErr != nil || len(text) > limit.MaxAnswer {
		return err
	}
	if storeErr := x.claim.Store(x.call.Context(), &limit.StoredAnswer{Fingerprint: x.fingerprint(), Status: status, Body: text}); storeErr != nil {
		return storeErr
	}
	x.settled = true
	return err
}

// replay sends the stored answer if the content of the request is the same.
func (x *exchange) replay(w http.ResponseWriter) error {
	if x.fingerprint() != x.stored.Fingerprint {
		return fault.OfField(keyHeader, "This Idempotency-Key was used with other content. Another request needs another key.")
	}
	w.Header().Set("Idempotency-Replayed", "true")
	w.Header().Set("Cache-Control", "no-store")
	web.SendJSON(w, x.stored.Status, x.stored.Body)
	return nil
}

// release frees the claimed key unless an answer is stored for it.
func (x *exchange) release() {
	if x.claim == nil || x.settled {
		return
	}
	// The client may have disconnected, which cancels its context.
	ctx := context.WithoutCancel(x.call.Context())
	if err := x.claim.Release(ctx); err != nil {
		x.api.Log.WarnContext(ctx, "an idempotency key could not be released and remains locked until it expires", slog.Any("error", err))
	}
}

// field adds a field to the fingerprint. Its content is everything written before end is called.
func (x *exchange) field(name string) (content io.Writer, end func()) {
	if x.content == nil {
		return io.Discard, func() {}
	}
	h := sha256.New()
	return h, func() { x.add('f', name, h.Sum(nil)) }
}

// file adds a file to the fingerprint by its digest, which receiving it computes.
func (x *exchange) file(name string, digest [sha256.Size]byte) {
	if x.content != nil {
		x.add('F', name, digest[:])
	}
}

// add adds an entry. The length of the name makes the concatenation of entries
// unambiguous.
func (x *exchange) add(kind byte, name string, digest []byte) {
	var head [9]byte
	head[0] = kind
	binary.BigEndian.PutUint64(head[1:], uint64(len(name)))
	x.content.Write(head[:])
	x.content.Write([]byte(name))
	x.content.Write(digest)
}

// fingerprint returns the digest of the content, zero without a key.
func (x *exchange) fingerprint() (sum [sha256.Size]byte) {
	if x.content != nil {
		x.content.Sum(sum[:0])
	}
	return sum
}

// idempotencyKey returns the key of a request, empty if it has none. A malformed
// key is fault.Invalid.
func idempotencyKey(r *http.Request) (string, error) {
	values := r.Header.Values(keyHeader)
	if len(values) == 0 {
		return "", nil
	}
	key := values[0]
	good := len(values) == 1 && len(key) >= 1 && len(key) <= maxKey
	for i := range len(key) {
		good = good && key[i] > ' ' && key[i] < 0x7f
	}
	if !good {
		return "", fault.OfField(keyHeader,
			fmt.Sprintf("The Idempotency-Key header must be given once, with 1 to %d visible ASCII characters and no spaces.", maxKey))
	}
	return key, nil
}
