package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/mail"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/certvault/certvault/test/vault"
)

// mailTime bounds the wait for mail.
const mailTime = 30 * time.Second

var (
	mailLink        = regexp.MustCompile(`/c/[A-Z2-7]{26}`)
	unsubscribeLink = regexp.MustCompile(`/unsubscribe/[A-Z2-7]{26}`)
	shareLink       = regexp.MustCompile(`/s/[A-Z2-7]{26}`)
)

// recipients names the pages of those who have certificates, which are behind the
// links that they were mailed.
func (f *fixture) recipients(ctx context.Context, base, data string, made map[string]*vault.Certificate) error {
	for page, name := range map[string]string{"mail-link": "valid", "mail-link-revoked": "revoked", "mail-link-long": "long", "mail-link-arabic": "arabic"} {
		text, err := awaitMail(ctx, data, made[name].CertificateTitle)
		if err != nil {
			return err
		}
		link := base + mailLink.FindString(text)
		f.add(page, link, http.StatusOK)
		if page != "mail-link" {
			continue
		}
		f.Pages[len(f.Pages)-1].Scored = true
		f.add("unsubscribe", base+unsubscribeLink.FindString(text), http.StatusOK)
		if err := f.share(ctx, base, link+"/"+made[name].UUID); err != nil {
			return err
		}
	}
	f.add("link-nothing", base+"/c/ABCDEFGHIJKLMNOPQRSTUVWXYZ", http.StatusNotFound)
	f.add("account-deleted", base+"/account/deleted", http.StatusOK)
	return nil
}

// share makes a link for others.
func (f *fixture) share(ctx context.Context, base, page string) error {
	r, err := f.client.Request(ctx, http.MethodPost, strings.TrimPrefix(page, base)+"/shares", strings.NewReader("label=Application&listed=unlisted"))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	a, err := f.client.Send(r)
	if err != nil || a.Status != http.StatusOK {
		return fmt.Errorf("making a link: %+v, %w", a, err)
	}
	f.add("share", base+shareLink.FindString(string(a.Body)), http.StatusOK).Scored = true
	return nil
}

// awaitMail waits for the mail that names a title, and gives its text.
func awaitMail(ctx context.Context, data, title string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, mailTime)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		files, err := filepath.Glob(filepath.Join(data, "outbox", "*.eml"))
		if err != nil {
			return "", err
		}
		for _, file := range files {
			text, err := mailText(file)
			if err != nil {
				return "", err
			}
			if strings.Contains(text, title) {
				return text, nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return "", fmt.Errorf("no mail tells of %s", title)
		}
	}
}

// mailText gives the plain text of a message.
func mailText(file string) (text string, err error) {
	content, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	m, err := mail.ReadMessage(content)
	if err != nil {
		return "", err
	}
	_, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		return "", err
	}
	parts := multipart.NewReader(m.Body, params["boundary"])
	part, err := parts.NextPart()
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(part)
	return string(body), err
}
