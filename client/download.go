package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Fetch downloads a public link of a certificate and writes the content to w. The link is a PDFPath,
// ImagePath, QRCodePath or BarcodePath, and must be https. Fetch sends no token.
func (c *Client) Fetch(ctx context.Context, link string, w io.Writer) error {
	if !strings.HasPrefix(link, "https://") {
		return fmt.Errorf("%q is not a link of a vault", link)
	}
	return c.download(ctx, &call{method: http.MethodGet, path: link, accept: "*/*", public: true}, w)
}

// download writes a file to w. After an interruption it requests the rest, and fails if the file
// has changed or has no strong ETag (RFC 9110, 13.1.5 and 14.2).
func (c *Client) download(ctx context.Context, k *call, w io.Writer) error {
	d := &partial{w: w}
	k.prepare = d.prepare
	return c.send(ctx, k, d.read)
}

// partial is the state of a download.
type partial struct {
	w       io.Writer
	written int64
	tag     string
}

func (d *partial) prepare(req *http.Request) {
	// With compression, the offset of the rest would be unknown.
	req.Header.Set("Accept-Encoding", "identity")
	if d.written > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", d.written))
		req.Header.Set("If-Range", d.tag)
	}
}

func (d *partial) read(res *http.Response) error {
	switch tag := res.Header.Get("ETag"); {
	case d.written == 0:
		d.tag = tag
	case tag != d.tag:
		return errors.New("the file changed while it was downloaded")
	case res.StatusCode != http.StatusPartialContent || !strings.HasPrefix(res.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", d.written)):
		return errors.New("the download was interrupted, and the vault does not send the rest")
	}
	n, err := io.Copy(d.w, &networkReader{res.Body})
	d.written += n
	if _, network := errors.AsType[*temporary](err); network && d.written > 0 && (d.tag == "" || strings.HasPrefix(d.tag, "W/")) {
		// Without a strong ETag, the rest may belong to another version of the file.
		return fmt.Errorf("the download was interrupted: %w", unmark(err))
	}
	return err
}

// networkReader marks the errors of a reader as temporary, so that they differ from those of the writer.
type networkReader struct{ r io.Reader }

func (n *networkReader) Read(p []byte) (int, error) {
	count, err := n.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = &temporary{fmt.Errorf("reading the response: %w", err)}
	}
	return count, err
}
