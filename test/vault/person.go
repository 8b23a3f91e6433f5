package vault

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// OwnerPassword is the password of the owners that CreateInstitution creates.
const OwnerPassword = "correct horse battery staple"

// SessionCookie is the name of the session cookie.
const SessionCookie = "__Host-session"

// SignIn signs a person in by password, and returns the value of the session cookie.
func (v *Vault) SignIn(ctx context.Context, email, password string) (session string, err error) {
	c, err := v.Client("")
	if err != nil {
		return "", err
	}
	defer c.HTTP.CloseIdleConnections()
	a, err := c.PostForm(ctx, "/sign-in", url.Values{"email": {email}, "password": {password}})
	if err != nil {
		return "", err
	}
	for _, cookie := range (&http.Response{Header: a.Header}).Cookies() {
		if cookie.Name == SessionCookie && cookie.Value != "" {
			return cookie.Value, nil
		}
	}
	return "", fmt.Errorf("signing in: status %d: %s", a.Status, a.Body)
}

// PostForm submits a form like a browser. It does not follow redirects.
func (c *Client) PostForm(ctx context.Context, target string, form url.Values) (*Response, error) {
	req, err := c.Request(ctx, http.MethodPost, target, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "text/html")
	return c.Send(req)
}
