package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/certvault/certvault/test/vault"
)

// access adds the pages about invitations, members, the audit log and the installation. It makes the owner
// an operator, because only operators see the pages about the installation. The pages that an invited person
// opens are shown without a session, all other pages with the session of the owner.
func (f *fixture) access(ctx context.Context, v *vault.Vault, owner *vault.Client) error {
	res, err := vault.Run(ctx, v.Options, "", "operator", "add", "owner@nwu.example")
	if err != nil || res.Code != 0 {
		return fmt.Errorf("operator add: %s%s: %w", res.Stdout, res.Stderr, err)
	}
	const panel = "/panel/northern-western-university"
	a, err := owner.PostForm(ctx, panel+"/members/invite", url.Values{"email": {"guest@nwu.example"}, "role": {"issuer"}, "language": {"ar"}})
	if err != nil || a.Status != http.StatusSeeOther {
		return fmt.Errorf("inviting a member: %+v: %w", a, err)
	}
	link, err := awaitLink(ctx, v, "guest@nwu.example", "/invitation/")
	if err != nil {
		return err
	}
	// The first link in the mail may be that of the List-Unsubscribe header, which ends with
	// /decline.
	link, _, _ = strings.Cut(link, "/decline")
	f.add("invitation", link, http.StatusOK).Heavy = true
	f.add("invitation-over", v.URL+"/invitation/none", http.StatusNotFound).Heavy = true
	for _, one := range []struct{ name, path string }{
		{"members", panel + "/members"}, {"members-invite", panel + "/members/invite"}, {"leave", panel + "/leave"},
		{"audit", panel + "/audit"}, {"audit-nothing", panel + "/audit?actor=unknown"}, {"operator", "/operator"},
		{"operator-institutions", "/operator/institutions"}, {"operator-institution-new", "/operator/institutions/new"},
		{"operator-institution-name", "/operator/institutions/northern-western-university/name"}, {"operator-audit", "/operator/audit"},
		{"operator-institution", "/operator/institutions/northern-western-university"}, {"operator-institution-state", "/operator/institutions/northern-western-university/state"},
		{"operator-institution-limits", "/operator/institutions/northern-western-university/limits"},
		{"operator-institution-address", "/operator/institutions/northern-western-university/address"}, {"operator-servers", "/operator/servers"},
	} {
		f.show(one.name, v.URL+one.path, http.StatusOK, owner.Session)
	}
	return nil
}
