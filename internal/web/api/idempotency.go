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

// answerTx gives the answer to a deed, in the transaction of the deed.
type answerTx func(ctx context.Context, tx *db.Tx, status int, body any) error

// once does what a POST request asks for, and answers it. With an Idempotency-Key
// it is done once, and whoever asks again gets the first answer.
//
// read takes the content of the request in and notes it in the fingerprint; where
// that is known, an answer is kept, and nothing need be stored. do does the deed,
// and in its transaction gives the answer: one stands if and only if the other
// does, whatever happens in between. A refusal as invalid is kept as well, unless
// the content was not read whole: there is nothing to tell the request by.
func (a *API) once(w http.ResponseWriter, c *call, read func(*fingerprint) error, do func(answerTx) error) error {
	ctx := c.Context()
	key, err := idempotencyKey(c.Request)
	if err != nil {
		return err
	}
	var p *fingerprint
	var claim *limit.Claim
	settled := false
	if key != "" {
		var kept *limit.Kept
		claim, kept, err = a.Keys.Begin(ctx, limit.Scope{
			InstitutionID: c.institution.ID, TokenID: c.token.ID, Method: c.Method, Path: c.URL.Path, Key: key,
		})
		if err != nil {
			return err
		}
		p = &fingerprint{h: sha256.New(), known: kept != nil}
		if kept != nil {
			if err := read(p); err != nil && !p.whole {
				return err
			}
			return replay(w, p, kept)
		}
		defer func() {
			if settled {
				return
			}
			// The client may be gone, and its context with it.
			if err := claim.Release(context.WithoutCancel(ctx)); err != nil {
				a.Log.WarnContext(ctx, "an idempotency key is held for longer than it need be", slog.Any("error", err))
			}
		}()
	}
	var answer limit.Kept
	if err = read(p); err == nil {
		err = do(func(ctx context.Context, tx *db.Tx, status int, body any) (err error) {
			answer.Fingerprint, answer.Status = p.sum(), status
			if answer.Body, err = web.JSON(body); err != nil || claim == nil {
				return err
			}
			return claim.KeepTx(ctx, tx, &answer)
		})
	}
	switch {
	case err == nil && answer.Status == 0:
		return errors.New("a deed was done without an answer")
	case err == nil:
		settled = true
		web.SendJSON(w, answer.Status, answer.Body)
		return nil
	case claim == nil || !p.whole || !fault.Is(err, fault.Invalid):
		return err
	}
	kept, keepErr := keepRefusal(w, c, claim, p, err)
	if keepErr != nil {
		return keepErr
	}
	settled = kept
	return err
}

// keepRefusal keeps a refusal, unless it is too long to be.
func keepRefusal(w http.ResponseWriter, c *call, claim *limit.Claim, p *fingerprint, refusal error) (kept bool, err error) {
	status, problem := web.ProblemOf(w, c.Request, worded(refusal))
	text, err := web.JSON(problem)
	if err != nil || len(text) > limit.MaxAnswer {
		return false, err
	}
	return true, claim.Keep(c.Context(), &limit.Kept{Fingerprint: p.sum(), Status: status, Body: text})
}

// replay gives the answer that is kept, to the content that it was given to.
func replay(w http.ResponseWriter, p *fingerprint, kept *limit.Kept) error {
	if p.sum() != kept.Fingerprint {
		return fault.OfField(keyHeader, "This Idempotency-Key was used with other content. Another request needs another key.")
	}
	w.Header().Set("Idempotency-Replayed", "true")
	w.Header().Set("Cache-Control", "no-store")
	web.SendJSON(w, kept.Status, kept.Body)
	return nil
}

// idempotencyKey gives the key of a request, empty when it has none.
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

// fingerprint is the digest of a request's content: its fields in their order, and
// of each file the SHA-256, so that the same form behind another boundary is the
// same request. The zero pointer notes nothing.
type fingerprint struct {
	h hash.Hash
	// known says that an answer is kept, and this request is but compared.
	known bool
	// whole says that all of the content is noted.
	whole bool
}

func (p *fingerprint) isKnown() bool { return p != nil && p.known }

// end says that the content was read to its end.
func (p *fingerprint) end() {
	if p != nil {
		p.whole = true
	}
}

// What a fingerprint's entry is of.
const (
	ofField byte = 'f'
	ofFile  byte = 'F'
)

// entry gives the digest into which the content of a field or file is written; end
// then notes it.
func (p *fingerprint) entry(of byte, name string) (content io.Writer, end func()) {
	if p == nil {
		return io.Discard, func() {}
	}
	h := sha256.New()
	return h, func() {
		// The name comes behind its length, so that no two entries run together.
		var head [9]byte
		head[0] = of
		binary.BigEndian.PutUint64(head[1:], uint64(len(name)))
		p.h.Write(head[:])
		p.h.Write([]byte(name))
		p.h.Write(h.Sum(nil))
	}
}

func (p *fingerprint) sum() (sum [sha256.Size]byte) {
	if p != nil {
		p.h.Sum(sum[:0])
	}
	return sum
}
