package credential

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxEntries is the maximum number of status entries of a credential.
const maxEntries = 4

// entries checks the entries of credentialStatus. It returns the problem of a failed entry or,
// if none failed, of an entry that could not be checked.
func (v *verifier) entries(document map[string]any, issuer string) error {
	entries := list(document["credentialStatus"])
	if len(entries) == 0 {
		return notRun(CodeNoStatus, errors.New("the credential has no status"))
	}
	if len(entries) > maxEntries {
		return notRun(CodeTooComplex, fmt.Errorf("it has %d status entries", len(entries)))
	}
	var worst error
	for _, e := range entries {
		entry, ok := e.(map[string]any)
		if !ok {
			return failed(CodeMalformed, errors.New("the status is not an object"))
		}
		err := v.entry(entry, issuer)
		if p, ok := errors.AsType[*problem](err); ok && p.result == Failed {
			return err
		}
		if err != nil {
			worst = err
		}
	}
	return worst
}

// entry checks one entry (BSL, 3.2).
func (v *verifier) entry(entry map[string]any, issuer string) error {
	e, purpose, err := readEntry(entry)
	if err != nil {
		return err
	}
	bits, err := v.statusList(e.List, purpose, issuer)
	if err != nil {
		return err
	}
	return report(bits, e.Index, purpose)
}

// readEntry reads an entry of credentialStatus (BSL, 2.1).
func readEntry(entry map[string]any) (e StatusEntry, purpose string, err error) {
	purpose = text(entry, "statusPurpose")
	if !has(entry["type"], typeStatusEntry) || purpose != purposeRevocation && purpose != "suspension" {
		return e, "", notRun(CodeUnknownStatus, fmt.Errorf("the status has the type %q and the purpose %q", entry["type"], purpose))
	}
	if size, ok := entry["statusSize"]; ok && size != 1.0 {
		return e, "", notRun(CodeUnknownStatus, fmt.Errorf("the status has %v bits", size))
	}
	index, err := strconv.Atoi(text(entry, "statusListIndex"))
	if err != nil || index < 0 {
		return e, "", failed(CodeMalformed, errors.New("the status has no index"))
	}
	return StatusEntry{List: text(entry, "statusListCredential"), Index: index}, purpose, nil
}

// places returns those of the first maxEntries entries of credentialStatus that can be read and whose
// purpose is revocation.
func places(document map[string]any) (found []StatusEntry) {
	entries := list(document["credentialStatus"])
	for _, v := range entries[:min(len(entries), maxEntries)] {
		entry, _ := v.(map[string]any)
		if e, purpose, err := readEntry(entry); err == nil && purpose == purposeRevocation {
			found = append(found, e)
		}
	}
	return found
}

// report returns the result of CheckStatus for an entry of a list.
func report(bits Bitstring, index int, purpose string) error {
	set, err := bits.Get(index)
	switch {
	case err != nil:
		return notRun(CodeBadList, err)
	case set && purpose == purposeRevocation:
		return failed(CodeRevoked, errors.New("the issuer revoked the credential"))
	case set:
		return failed(CodeSuspended, errors.New("the issuer suspended the credential"))
	}
	return nil
}

// statusList fetches a status list and verifies it like a credential (BSL, 3.2). It rejects a list of another
// issuer, because nothing shows that the issuer of the credential trusts that issuer.
func (v *verifier) statusList(address, purpose, issuer string) (Bitstring, error) {
	data, err := v.sources.get(v.ctx, address, MediaTypeVC)
	if err != nil {
		return nil, err
	}
	bits, err := v.readList(data, address, purpose, issuer)
	if err != nil {
		if v.ctx.Err() != nil {
			return nil, v.ctx.Err()
		}
		return nil, notRun(CodeBadList, fmt.Errorf("the status list %s: %w", address, err))
	}
	return bits, nil
}

func (v *verifier) readList(data []byte, address, purpose, issuer string) (Bitstring, error) {
	var document map[string]any
	var key, proof error
	data = trim(data)
	if len(data) > 0 && data[0] == '{' {
		var err error
		if document, err = parseObject(data); err != nil {
			return nil, err
		}
		key, proof = v.verifyIntegrity(document, issuer)
	} else {
		j, err := parseJWS(string(data))
		if err != nil {
			return nil, err
		}
		document = j.payload
		key, proof = v.verifyJWS(j, issuer)
	}
	if err := errors.Join(key, proof); err != nil {
		return nil, err
	}
	s, err := readVC(document)
	if err != nil {
		return nil, err
	}
	if s.IssuerID != issuer {
		return nil, fmt.Errorf("its issuer is %q", s.IssuerID)
	}
	if err := v.period(s); err != nil {
		return nil, err
	}
	subject, ok := document["credentialSubject"].(map[string]any)
	switch {
	case !has(document["type"], typeStatusListVC) || !ok || text(subject, "type") != typeStatusList:
		return nil, errors.New("it is not a status list")
	case s.ID != "" && s.ID != address:
		return nil, fmt.Errorf("it is the list %q", s.ID)
	case !has(subject["statusPurpose"], purpose):
		return nil, fmt.Errorf("its purpose is not %q", purpose)
	}
	return decodeBitstring(text(subject, "encodedList"))
}

// tokenStatus checks the claim status of an SD-JWT VC (TSL, 8.3).
func (v *verifier) tokenStatus(claims map[string]any, issuer string) error {
	e, err := tokenEntry(claims)
	if err != nil {
		return err
	}
	data, err := v.sources.get(v.ctx, e.List, MediaTypeStatusJWT)
	if err != nil {
		return err
	}
	bits, err := v.readToken(strings.TrimSpace(string(data)), e.List, issuer)
	if err != nil {
		if v.ctx.Err() != nil {
			return v.ctx.Err()
		}
		return notRun(CodeBadList, fmt.Errorf("the status list %s: %w", e.List, err))
	}
	return report(bits, e.Index, purposeRevocation)
}

// tokenEntry reads the claim status (TSL, 6.2).
func tokenEntry(claims map[string]any) (e StatusEntry, err error) {
	status, ok := claims["status"].(map[string]any)
	if !ok {
		if _, ok := claims["status"]; ok {
			return e, failed(CodeMalformed, errors.New("the status is not an object"))
		}
		return e, notRun(CodeNoStatus, errors.New("the credential has no status"))
	}
	reference, ok := status["status_list"].(map[string]any)
	index, isNumber := reference["idx"].(float64)
	if !ok || !isNumber || index != float64(int(index)) {
		return e, notRun(CodeUnknownStatus, errors.New("the status is not a status list"))
	}
	return StatusEntry{List: text(reference, "uri"), Index: int(index)}, nil
}

// readToken verifies a status list token and returns its list (TSL, 8.3).
func (v *verifier) readToken(token, address, issuer string) (Bitstring, error) {
	j, err := parseJWS(token)
	if err != nil {
		return nil, err
	}
	if !slices.Contains([]string{"statuslist+jwt", MediaTypeStatusJWT}, j.typ) || j.payload["sub"] != address {
		return nil, errors.New("it is not this status list")
	}
	key, proof := v.verifySDJWT(j, issuer)
	if err := errors.Join(key, proof); err != nil {
		return nil, err
	}
	until, ok, err := unixTime(j.payload, "exp")
	if err != nil {
		return nil, err
	}
	if ok && v.now.After(until) {
		return nil, errors.New("it has expired")
	}
	object, ok := j.payload["status_list"].(map[string]any)
	if !ok {
		return nil, errStatusList
	}
	return decodeToken(object)
}
