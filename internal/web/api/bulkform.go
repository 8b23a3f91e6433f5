package api

import (
	"bufio"
	"errors"
	"io"
	"net/url"
	"strings"

	"github.com/certvault/certvault/internal/fault"
)

const (
	// maxPair is the maximum size of one encoded name and value in bytes. A byte of the value may be encoded
	// as three bytes, and the rest is for the name.
	maxPair        = 4 * maxBulkValue
	malformedPairs = "The application/x-www-form-urlencoded body is malformed or incomplete."
)

// urlencoded reads an application/x-www-form-urlencoded body (URL Living Standard, 5.1), one pair
// at a time.
func (in *bulkInput) urlencoded(body io.Reader) error {
	r := bufio.NewReaderSize(body, maxPair)
	for {
		pair, err := r.ReadSlice('&')
		long := errors.Is(err, bufio.ErrBufferFull)
		last := errors.Is(err, io.EOF)
		if err != nil && !long && !last {
			return err
		}
		if err := in.pair(strings.TrimSuffix(string(pair), "&"), long); err != nil {
			return err
		}
		for long {
			_, err := r.ReadSlice('&')
			if long = errors.Is(err, bufio.ErrBufferFull); long {
				continue
			}
			if last = errors.Is(err, io.EOF); err != nil && !last {
				return err
			}
		}
		if last {
			return nil
		}
	}
}

// pair handles one name and value. If long is true, pair is only the beginning of a pair that is
// too long.
func (in *bulkInput) pair(pair string, long bool) error {
	if pair == "" {
		return nil
	}
	if err := in.count(); err != nil {
		return err
	}
	rawName, rawValue, _ := strings.Cut(pair, "=")
	name, err := url.QueryUnescape(rawName)
	if err != nil {
		return fault.Wrap(fault.Invalid, malformedPairs, err)
	}
	if name == notifyName {
		value, err := url.QueryUnescape(rawValue)
		if err != nil && !long {
			return fault.Wrap(fault.Invalid, malformedPairs, err)
		}
		return in.setNotify([]byte(value))
	}
	n := readName(name)
	switch {
	case !n.text():
		return in.name(n)
	case long:
		return in.draft.TooLong(n.index, n.known())
	}
	value, err := url.QueryUnescape(rawValue)
	if err != nil {
		return fault.Wrap(fault.Invalid, malformedPairs, err)
	}
	return in.set(n, []byte(value))
}
