package credential

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Options are the options of Verify.
type Options struct {
	// Fetcher fetches documents. nil means Offline.
	Fetcher Fetcher
	Now     time.Time
}

// Verify checks the credential of any issuer in a file that Unbake accepts. It returns an error of Unbake,
// such as ErrNoCredential, or the error of ctx if it is cancelled. All other problems are results of
// checks.
func Verify(ctx context.Context, data []byte, o Options) (*Report, error) {
	text, carrier, err := Unbake(data)
	if err != nil {
		return nil, err
	}
	if o.Fetcher == nil {
		o.Fetcher = Offline{}
	}
	v := verifier{ctx: ctx, now: o.Now, sources: sources{fetcher: o.Fetcher, fetched: map[string]fetched{}}}
	r := &Report{Carrier: carrier}
	s, err := v.open(text)
	r.add(CheckForm, err)
	if s != nil {
		r.Format, r.Statement, r.Places = s.format, s.statement, s.places
	}
	if err == nil {
		v.check(r, s)
	} else {
		for _, name := range []CheckName{CheckIssuer, CheckProof, CheckPeriod, CheckStatus} {
			r.Checks = append(r.Checks, Check{Name: name, Result: NotRun, Code: r.Checks[0].Code})
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	r.decide()
	return r, nil
}

// add adds a check. The check passed if err is nil; otherwise err determines its result.
func (r *Report) add(name CheckName, err error) {
	c := Check{Name: name, Result: Passed}
	if err != nil {
		c.Result, c.Code, c.Detail = Failed, CodeMalformed, err.Error()
		if p, ok := errors.AsType[*problem](err); ok {
			c.Result, c.Code = p.result, p.code
		}
		if slices.Contains(complete, c.Code) {
			c.Detail = ""
		}
	}
	r.Checks = append(r.Checks, c)
}

// verifier is the state of one verification.
type verifier struct {
	ctx     context.Context //nolint:containedctx // the state lives as long as one call of Verify
	now     time.Time
	sources sources
}

// signed is a credential whose proof has not been verified yet.
type signed struct {
	format    string
	statement Statement
	// verify checks the proof. It returns the results of CheckIssuer and CheckProof.
	verify func() (issuer, proof error)
	// status returns the result of CheckStatus. It may be called only if the proof is valid.
	status func() error
	// places are the entries for Report.Places.
	places []StatusEntry
}

// open reads a credential in any format.
func (v *verifier) open(text []byte) (*signed, error) {
	switch {
	case text[0] == '{':
		return v.openJSON(text)
	case strings.Contains(string(text), "~"):
		return v.openSDJWT(string(text))
	}
	return v.openJWT(string(text))
}

// check adds the checks after CheckForm.
func (v *verifier) check(r *Report, s *signed) {
	issuer, proof := s.verify()
	if issuer == nil && strings.HasPrefix(s.statement.IssuerID, "did:key:") {
		issuer = notRun(CodeAnonymous, errors.New("the issuer is a key without a name"))
	}
	r.add(CheckIssuer, issuer)
	r.add(CheckProof, proof)
	r.add(CheckPeriod, v.period(s.statement))
	status := notRun(CodeUnproven, errors.New("the signature was not verified"))
	if proof == nil { // otherwise a change of the file could make this server fetch another address
		status = s.status()
	}
	r.add(CheckStatus, status)
}

// period checks the time for which a credential is valid (VC, 4.9).
func (v *verifier) period(s Statement) error {
	switch {
	case !s.ValidFrom.IsZero() && v.now.Before(s.ValidFrom):
		return failed(CodeNotYet, fmt.Errorf("it is valid from %s", s.ValidFrom.Format(time.RFC3339)))
	case !s.ValidUntil.IsZero() && v.now.After(s.ValidUntil):
		return failed(CodeExpired, fmt.Errorf("it was valid until %s", s.ValidUntil.Format(time.RFC3339)))
	}
	return nil
}
