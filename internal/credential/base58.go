package credential

import (
	"errors"
	"math/big"
	"slices"
	"strings"
)

// base58Alphabet is the alphabet of base58-btc, whose Multibase prefix is "z" (CID, 2.4).
const base58Alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

// maxBase58 limits the length of the text that base58Decode accepts, because decoding takes quadratic time.
// A key or a signature has at most 88 characters.
const maxBase58 = 128

var errBase58 = errors.New("the text is not base58")

func base58Encode(data []byte) string {
	number, radix, digit := new(big.Int).SetBytes(data), big.NewInt(58), new(big.Int)
	var out []byte
	for number.Sign() > 0 {
		number.DivMod(number, radix, digit)
		out = append(out, base58Alphabet[digit.Int64()])
	}
	for _, b := range data { // each leading zero byte becomes a "1"
		if b != 0 {
			break
		}
		out = append(out, base58Alphabet[0])
	}
	slices.Reverse(out)
	return string(out)
}

func base58Decode(s string) ([]byte, error) {
	if len(s) > maxBase58 {
		return nil, errBase58
	}
	number, radix := new(big.Int), big.NewInt(58)
	for i := range len(s) {
		digit := strings.IndexByte(base58Alphabet, s[i])
		if digit < 0 {
			return nil, errBase58
		}
		number.Mul(number, radix).Add(number, big.NewInt(int64(digit)))
	}
	zeros := len(s) - len(strings.TrimLeft(s, base58Alphabet[:1]))
	return append(make([]byte, zeros), number.Bytes()...), nil
}
