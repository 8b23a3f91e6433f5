package credential

import (
	"syscall"
	"testing"
	"time"
)

// cpu starts measuring the processor time of the process. The returned function reports the mean time per
// iteration.
func cpu(b *testing.B) func() {
	b.Helper()
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	start := used()
	return func() { b.ReportMetric((used()-start).Seconds()*1000/float64(b.N), "cpu-ms/op") }
}

func BenchmarkSignDataIntegrity(b *testing.B) {
	k, c := newKeys(b), mustNew(b, testInput())
	defer cpu(b)()
	for b.Loop() {
		if _, err := c.SignDataIntegrity(k.ed, testNow); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCanonical measures a part of BenchmarkSignDataIntegrity: the canonical form of the credential.
func BenchmarkCanonical(b *testing.B) {
	data, err := mustNew(b, testInput()).JSON()
	if err != nil {
		b.Fatal(err)
	}
	object, err := parseObject(data)
	if err != nil {
		b.Fatal(err)
	}
	defer cpu(b)()
	for b.Loop() {
		if _, err := canonical(b.Context(), object); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSignBoth signs a credential twice: with a Data Integrity proof, and as a JWT.
func BenchmarkSignBoth(b *testing.B) {
	k, c := newKeys(b), mustNew(b, testInput())
	defer cpu(b)()
	for b.Loop() {
		if _, err := c.SignDataIntegrity(k.ed, testNow); err != nil {
			b.Fatal(err)
		}
		if _, err := c.SignJWT(k.ec); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSignStatusList(b *testing.B) {
	k := newKeys(b)
	var set []int
	for i := range 10_000 {
		set = append(set, i*7919%StatusListSize)
	}
	bits, err := NewBitstring(set...)
	if err != nil {
		b.Fatal(err)
	}
	defer cpu(b)()
	for b.Loop() {
		l := StatusList{URL: testList, Issuer: testDID, Bits: bits, Issued: testNow, Lifetime: 5 * time.Minute}
		if _, err := SignStatusList(l, k.ed); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkVerifyCredential verifies a credential and the status list that it refers to.
func BenchmarkVerifyCredential(b *testing.B) {
	k := newKeys(b)
	data, documents := []byte(formats(b, mustNew(b, testInput()), k)[MediaTypeVC]), newWeb(b, k)
	defer cpu(b)()
	for b.Loop() {
		if r, err := Verify(b.Context(), data, Options{Fetcher: documents, Now: testNow}); err != nil || r.Verdict != Valid {
			b.Fatal(r, err)
		}
	}
}
