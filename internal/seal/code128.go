package seal

import "strings"

// Symbol values of Code 128 (ISO/IEC 15417, 4.3.2 and table 1).
const (
	codeC  = 99
	codeB  = 100
	startB = 104
	startC = 105
	stop   = 106
	modulo = 103
)

// widths128 has the widths of the bars and spaces of each symbol value, six for
// each, beginning with a bar; the stop pattern has seven (ISO/IEC 15417, table 1).
const widths128 = "212222222122222221121223121322131222122213122312132212221213221312231212112232122132122231" +
	"113222123122123221223211221132221231213212223112312131311222321122321221312212322112322211212123212321" +
	"232121111323131123131321112313132113132311211313231113231311112133112331132131113123113321133121313121" +
	"211331231131213113213311213131311123311321331121312113312311332111314111221411431111111224111422121124" +
	"121421141122141221112214112412122114122411142112142211241211221114413111241112134111111242121142121241" +
	"114212124112124211411212421112421211212141214121412121111143111341131141114113114311411113411311113141" +
	"1141313111414111312114122112142112322331112"

// code128 returns the modules of text as a Code 128 barcode, true for dark. text
// has characters from space to underscore only. Digits are encoded in pairs where
// four or more follow each other.
func code128(text string) []bool {
	var values []int
	set := 0
	change := func(to, start int) {
		if set == 0 {
			values = append(values, start)
		} else if set != to {
			values = append(values, to)
		}
		set = to
	}
	for i := 0; i < len(text); i++ {
		digits := len(text[i:]) - len(strings.TrimLeft(text[i:], "0123456789"))
		if digits >= 4 || set == codeC && digits >= 2 {
			change(codeC, startC)
			values = append(values, int(text[i]-'0')*10+int(text[i+1]-'0'))
			i++
			continue
		}
		change(codeB, startB)
		values = append(values, int(text[i]-' '))
	}
	sum := values[0]
	for i, v := range values {
		sum += i * v
	}
	var modules []bool
	for _, v := range append(values, sum%modulo, stop) {
		widths := widths128[v*6:]
		if v != stop {
			widths = widths[:6]
		}
		for i, w := range widths {
			for range w - '0' {
				modules = append(modules, i%2 == 0)
			}
		}
	}
	return modules
}
