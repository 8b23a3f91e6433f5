package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/certvault/certvault/test/vault"
)

// programs adds the pages of the panel about API tokens, webhooks and deliveries.
func (f *fixture) programs(ctx context.Context, v *vault.Vault, slug string) error {
	session, err := v.SignIn(ctx, "owner@nwu.example", vault.OwnerPassword)
	if err != nil {
		return err
	}
	at := v.URL + "/panel/" + slug
	show := func(name, path string, status int) *page { return f.show(name, at+path, status, session) }
	empty, err := v.CreateInstitution(ctx, "Example Academy", "EXA")
	if err != nil {
		return err
	}
	hook, err := v.CreateWebhook(ctx, slug, "https://hooks.example.org/certvault/inbound")
	if err != nil {
		return err
	}
	var tried struct {
		ID int64 `json:"id"`
	}
	// The URL is not reachable, so the result is a failed delivery.
	if _, err := v.Hook(ctx, slug, &tried, "test", hook.ID); err != nil || tried.ID == 0 {
		return fmt.Errorf("testing an endpoint: %+v: %w", tried, err)
	}
	paused, err := v.CreateWebhook(ctx, slug, "https://paused.example.org/", "certificate_application.approved", "certificate_application.revoked")
	if err != nil {
		return err
	}
	if _, err := v.Hook(ctx, slug, nil, "pause", paused.ID); err != nil {
		return fmt.Errorf("pausing an endpoint: %w", err)
	}
	for name, path := range map[string]string{"tokens": "/tokens", "webhook": "/webhooks/" + hook.ID, "delivery": "/deliveries/" + strconv.FormatInt(tried.ID, 10)} {
		show("panel-"+name, path, http.StatusOK).Scored = true
	}
	for name, path := range map[string]string{ //nolint:gosec // addresses of pages
		"token-new": "/tokens/new?preset=issuing", "token-rotate": "/tokens/1/rotate", "token-revoke": "/tokens/1/revoke", "tokens-ended": "/tokens?show=ended",
		"webhooks": "/webhooks", "webhook-new": "/webhooks/new", "webhook-edit": "/webhooks/" + paused.ID + "/edit", "webhook-paused": "/webhooks/" + paused.ID,
		"webhook-rotate": "/webhooks/" + hook.ID + "/rotate", "webhook-delete": "/webhooks/" + hook.ID + "/delete",
		"deliveries": "/deliveries", "deliveries-none": "/deliveries?status=delivered&q=nothing", "webhook-signatures": "/webhooks/signatures?language=python",
	} {
		show("panel-"+name, path, http.StatusOK)
	}
	show("panel-error", "/tokens/999/rotate", http.StatusNotFound)
	other, err := v.SignIn(ctx, "owner@exa.example", vault.OwnerPassword)
	if err != nil {
		return err
	}
	for name, path := range map[string]string{"tokens-empty": "/tokens", "webhooks-empty": "/webhooks", "deliveries-empty": "/deliveries"} {
		f.show("panel-"+name, v.URL+"/panel/"+empty.Slug+path, http.StatusOK, other)
	}
	return nil
}
