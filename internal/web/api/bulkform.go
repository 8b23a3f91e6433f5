package api

import (
	"bufio"
	"errors"
	"io"
	"net/url"
	"strings"

	"github.com/certvault/certvault/internal/fault"
)

// maxPair bounds one name and value in bytes as they are encoded: each byte of
// the longest value may take three.
const maxPair = 4 * maxBulkValue

func badForm(err error) error {
	return fault.Wrap(fault.Invalid, "The application/x-www-form-urlencoded body is malformed or incomplete.", err)
}

// urlencoded reads name=value&... (URL Living Standard, 5.1) a pair at a time.
func (in *bulkInput) urlencoded(body io.Reader) error {
	r := bufio.NewReaderSize(body, maxPair)
	for {
		pair, err := r.ReadSlice('&')
		long := errors.Is(err, bufio.ErrBufferFull)
		last := errors.Is(err, io.EOF)
		if err != nil && !long && !last {
			return badForm(err)
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
				return badForm(err)
			}
		}
		if last {
			return nil
		}
	}
}

// pair takes one name and value; of one that is too long only the beginning is
// there.
func (in *bulkInput) pair(pair string, long bool) error {
	if pair == "" {
		return nil
	}
	if err := in.next(); err != nil {
		return err
	}
	rawName, rawValue, _ := strings.Cut(pair, "=")
	name, err := url.QueryUnescape(rawName)
	if err != nil {
		return badForm(err)
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
		return badForm(err)
	}
	return in.set(n, []byte(value))
}
