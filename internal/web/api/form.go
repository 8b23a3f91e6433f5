package api

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"time"

	"github.com/certvault/certvault/internal/fault"
)

const (
	// maxDrain is how much of a body over the limit is read all the same: a
	// client that is still writing would see a reset connection in place of the
	// answer.
	maxDrain = 64 << 20
	// maxPartHead bounds what is read for the head of one part.
	maxPartHead = 64 << 10
	// uploadTime bounds how long a body may take to come.
	uploadTime = 10 * time.Minute
)

// formBoundary gives what parts the request's form (RFC 7578, 4.1).
func formBoundary(r *http.Request) (string, error) {
	mediaType, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || mediaType != "multipart/form-data" {
		return "", fault.New(fault.Unsupported, "The request must be multipart/form-data.")
	}
	if params["boundary"] == "" {
		return "", fault.New(fault.Unsupported, "The multipart/form-data request names no boundary.")
	}
	return params["boundary"], checkEncoding(r)
}

// readBody lets parse read a body of at most limit bytes, in time, and reads what
// parse leaves of it. An error of reading is put into words by broken.
func readBody(c *call, limit int64, broken func(error) error, parse func(io.Reader) error) error {
	tooLarge := fault.New(fault.TooLarge, fmt.Sprintf("The request body is larger than %d MiB.", limit>>20))
	c.body.allow(uploadTime)
	body := &countedBody{r: c.Body, left: limit}
	if c.ContentLength > limit {
		if c.Header.Get("Expect") != "" {
			return tooLarge // and need not be sent
		}
		body.left = 0
	}
	err := parse(body)
	if body.over || err == nil {
		// What follows the end of the content is read too, and counts.
		if _, drainErr := io.Copy(io.Discard, body); drainErr != nil {
			err = errors.Join(err, broken(drainErr))
		}
	}
	if body.over {
		_, _ = io.Copy(io.Discard, io.LimitReader(c.Body, maxDrain))
		return tooLarge
	}
	return err
}

// eachPart gives the parts of a form to take, one after the other.
func eachPart(body io.Reader, boundary string, take func(*multipart.Part) error) error {
	head := &headReader{r: body}
	mr := multipart.NewReader(head, boundary)
	for {
		head.bound(maxPartHead)
		part, err := mr.NextPart()
		head.free()
		// Wrapped, it would be the end of a body that does not end.
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return malformed(err)
		}
		if err := take(part); err != nil {
			return err
		}
	}
}

func malformed(err error) error {
	return unread("The multipart/form-data body is malformed or incomplete.", err)
}

// countedBody ends with an error after maxBody bytes and remembers that it did.
type countedBody struct {
	r    io.Reader
	left int64
	over bool
}

var errBody = errors.New("the body is over the limit")

func (b *countedBody) Read(p []byte) (int, error) {
	if b.over || b.left == 0 && b.more() {
		b.over = true
		return 0, errBody
	}
	if b.left == 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.r.Read(p)
	b.left -= int64(n)
	return n, err
}

// more tells whether there is a byte beyond the limit.
func (b *countedBody) more() bool {
	var one [1]byte
	n, _ := io.ReadFull(b.r, one[:])
	return n > 0
}
