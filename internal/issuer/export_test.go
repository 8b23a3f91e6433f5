package issuer

import "testing"

// CodeDigest returns the digest of a code.
func (s *Service) CodeDigest(secret, code string) ([]byte, error) { return s.codeDigest(secret, code) }

// Places returns the places of the n certificates with the ids from, from+1 and so on. All ids must belong
// to one list.
func (s *Service) Places(t testing.TB, institution, from int64, n, version int) (list []Entry) {
	t.Helper()
	first, err := s.place(institution, from, version)
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.seriesOf(first.List)
	if err != nil {
		t.Fatal(err)
	}
	o, err := s.order(l)
	if err != nil {
		t.Fatal(err)
	}
	for id := from; id < from+int64(n); id++ {
		list = append(list, Entry{first.List, o.position(id - l.first())})
	}
	if list[0] != first {
		t.Fatalf("the place of certificate %d: place returns %v, order.position returns %v; want the same", from, first, list[0])
	}
	return list
}

// Numbers applies order.position and then order.number to each index in the list of a certificate. It
// returns how many indexes stay the same, which must be all.
func (s *Service) Numbers(t testing.TB, institution, certificate int64) (n int) {
	t.Helper()
	o, err := s.order(series{institution, certificate / listLength, 0})
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(listLength) {
		if o.number(o.position(i)) == i {
			n++
		}
	}
	return n
}
