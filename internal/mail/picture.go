package mail

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"io"
	"log/slog"
	"mime/multipart"
	"mime/quotedprintable"
	"net/textproto"
	"strings"
	"time"
)

const (
	// pictureTime is the time limit for loading all pictures of a message.
	pictureTime = 5 * time.Second
)

// MaxLogo and MaxPage are the maximum sizes of the pictures of a message in bytes. A message with both
// pictures for which Fits reports true has at most 60 KB when it is transmitted.
const (
	MaxLogo = 6 << 10
	MaxPage = 15 << 10
)

// ErrNoPicture means that a picture does not exist, or no longer exists. The message is sent without
// the picture.
var ErrNoPicture = errors.New("there is no such picture")

// logoPicture and pagePicture are the names of the pictures of a letter.
const (
	logoPicture = "logo"
	pagePicture = "page"
)

// Picture is a picture of a message. It is loaded when the message is sent, so that the transaction
// that stores the message does not wait for it.
type Picture struct {
	// Name is the name of the picture in the HTML.
	Name string `json:"name"`
	// Source identifies the content of the picture for Config.Picture.
	Source string `json:"source"`
}

// Image is the content of a picture.
type Image struct {
	// Type is the media type, such as image/png.
	Type    string
	Content []byte
	// Width and Height are the size at which the mail shows the picture, in CSS pixels.
	Width, Height int
}

// openPicture and closePicture return the comments that enclose the elements of a picture. Text in a
// letter cannot contain these comments, because it is escaped.
func openPicture(name string) template.HTML  { return template.HTML("<!--" + name + "[-->") } //nolint:gosec // the name is a constant of the template
func closePicture(name string) template.HTML { return template.HTML("<!--]" + name + "-->") } //nolint:gosec // the name is a constant of the template

// fillPictures returns the HTML with the addresses and sizes of its pictures. It removes the
// elements of a picture without an image, because mail programs would show an empty frame.
func (m *Message) fillPictures(images map[string]*Image, address func(name string) string) string {
	html := m.HTML
	for _, p := range m.Pictures {
		before, rest, found := strings.Cut(html, string(openPicture(p.Name)))
		if !found {
			continue
		}
		element, after, _ := strings.Cut(rest, string(closePicture(p.Name)))
		if i := images[p.Name]; i != nil {
			element = strings.Replace(element, `"cid:`+p.Name+`"`, `"`+address(p.Name)+fmt.Sprintf(`" width="%d" height="%d"`, i.Width, i.Height), 1)
		} else {
			element = ""
		}
		html = before + element + after
	}
	return html
}

// Page returns the HTML of a message as a page that contains its pictures as data URLs. The links of the
// page open a new window. In a sandboxed frame, they therefore do nothing.
func (m *Mailer) Page(ctx context.Context, msg *Message) string {
	images := m.images(ctx, msg.Pictures)
	html := msg.fillPictures(images, func(name string) string {
		return "data:" + images[name].Type + ";base64," + base64.StdEncoding.EncodeToString(images[name].Content)
	})
	return strings.Replace(html, "<head>", `<head><base target="_blank">`, 1)
}

// images returns the images of pictures by name. It omits pictures that do not exist, cannot be loaded,
// are too large or are not ready within pictureTime.
func (m *Mailer) images(ctx context.Context, pictures []Picture) map[string]*Image {
	images := map[string]*Image{}
	if m.picture == nil {
		return images
	}
	ctx, cancel := context.WithTimeout(ctx, pictureTime)
	defer cancel()
	for _, p := range pictures {
		type result struct {
			image *Image
			err   error
		}
		done := make(chan result, 1)
		// If the function picture ignores its context, the goroutine may end after images has returned.
		go func() {
			image, err := m.picture(ctx, p.Source)
			done <- result{image, err}
		}()
		var r result
		select {
		case r = <-done:
		case <-ctx.Done():
			r.err = ctx.Err()
		}
		limit := MaxPage
		if p.Name == logoPicture {
			limit = MaxLogo
		}
		if r.err == nil && len(r.image.Content) > limit {
			r.err = fmt.Errorf("the picture has more than %d bytes", limit)
		}
		if errors.Is(r.err, ErrNoPicture) {
			continue
		}
		if r.err != nil {
			m.log.WarnContext(ctx, "a message has no picture", slog.String("picture", p.Name), slog.Any("error", r.err))
			continue
		}
		images[p.Name] = r.image
	}
	return images
}

// related is the HTML of a message with its pictures: a body of type multipart/related (RFC 2387).
type related struct {
	contentType string
	body        []byte
}

// newRelated returns the HTML part, followed by one part for each image. The Content-ID of an image
// contains its name and the Message-ID of the message, so it is unique.
func newRelated(e *Envelope, images map[string]*Image, messageID string, useBase64 bool) (*related, error) {
	id := func(name string) string { return name + "." + messageID }
	html := e.fillPictures(images, func(name string) string { return "cid:" + id(name) })
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	h := textproto.MIMEHeader{"Content-Type": {"text/html; charset=UTF-8"}, "Content-Transfer-Encoding": {"quoted-printable"}}
	if useBase64 {
		h.Set("Content-Transfer-Encoding", "base64")
	}
	part, err := w.CreatePart(h)
	if err != nil {
		return nil, err
	}
	if useBase64 {
		err = writeBase64(part, []byte(html))
	} else {
		q := quotedprintable.NewWriter(part)
		if _, err = io.WriteString(q, html); err == nil {
			err = q.Close()
		}
	}
	if err != nil {
		return nil, err
	}
	for _, p := range e.Pictures {
		image := images[p.Name]
		if image == nil {
			continue
		}
		_, extension, _ := strings.Cut(image.Type, "/")
		name := p.Name + "." + extension
		part, err := w.CreatePart(textproto.MIMEHeader{
			"Content-Type": {image.Type + `; name="` + name + `"`}, "Content-Transfer-Encoding": {"base64"}, "Content-ID": {"<" + id(p.Name) + ">"},
			"Content-Disposition": {`inline; filename="` + name + `"`},
		})
		if err != nil {
			return nil, err
		}
		if err := writeBase64(part, image.Content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return &related{"multipart/related; type=\"text/html\";\r\n boundary=" + w.Boundary(), b.Bytes()}, nil
}

// writeTo writes the body.
func (r *related) writeTo(w io.Writer) (int64, error) {
	n, err := w.Write(r.body)
	return int64(n), err
}

// base64Line is the maximum length of a line in base64 (RFC 2045, 6.8).
const base64Line = 76

func writeBase64(w io.Writer, content []byte) error {
	text := base64.StdEncoding.EncodeToString(content)
	for len(text) > base64Line {
		if _, err := io.WriteString(w, text[:base64Line]+"\r\n"); err != nil {
			return err
		}
		text = text[base64Line:]
	}
	_, err := io.WriteString(w, text+"\r\n")
	return err
}
