package seal

import "encoding/binary"

// These are tags of the first image file directory (TIFF 6.0, section 8).
const (
	tagOrientation    = 0x0112
	tagXResolution    = 0x011A
	tagYResolution    = 0x011B
	tagResolutionUnit = 0x0128
)

// These are the supported field types (TIFF 6.0, section 2).
const (
	typeShort    = 3
	typeRational = 5
)

// exif contains the fields of an Exif block that affect how the image is displayed.
type exif struct {
	orientation int     // 1 to 8, 0 if absent
	x, y        float64 // pixels per unit
	unit        int     // 2 for inch, 3 for centimetre
}

// readExif reads the first directory of a TIFF structure. It skips fields that it cannot read.
func readExif(tiff []byte) exif {
	e := exif{unit: 2}
	if len(tiff) < 8 {
		return e
	}
	var order binary.ByteOrder = binary.BigEndian
	switch string(tiff[:4]) {
	case "II*\x00":
		order = binary.LittleEndian
	case "MM\x00*":
	default:
		return e
	}
	start := int64(order.Uint32(tiff[4:]))
	if start+2 > int64(len(tiff)) {
		return e
	}
	entries := int(order.Uint16(tiff[start:]))
	for i := range entries {
		at := start + 2 + 12*int64(i)
		if at+12 > int64(len(tiff)) {
			break
		}
		field := tiff[at : at+12]
		kind, count := order.Uint16(field[2:]), order.Uint32(field[4:])
		if count != 1 {
			continue
		}
		short := int(order.Uint16(field[8:]))
		switch tag := order.Uint16(field); {
		case tag == tagOrientation && kind == typeShort && short >= 1 && short <= 8:
			e.orientation = short
		case tag == tagResolutionUnit && kind == typeShort:
			e.unit = short
		case tag == tagXResolution && kind == typeRational:
			e.x = rational(tiff, int64(order.Uint32(field[8:])), order)
		case tag == tagYResolution && kind == typeRational:
			e.y = rational(tiff, int64(order.Uint32(field[8:])), order)
		}
	}
	return e
}

func rational(tiff []byte, at int64, order binary.ByteOrder) float64 {
	if at+8 > int64(len(tiff)) {
		return 0
	}
	denominator := order.Uint32(tiff[at+4:])
	if denominator == 0 {
		return 0
	}
	return float64(order.Uint32(tiff[at:])) / float64(denominator)
}

// These are the default resolution and the limits of plausible resolutions, in pixels per inch.
// Values outside the limits are ignored.
const (
	defaultResolution = 96
	minResolution     = 10
	maxResolution     = 10000
)

// density is the pixel density of an image. If absolute is true, x and y are in pixels per inch.
// Otherwise only their ratio has a meaning.
type density struct {
	x, y     float64
	absolute bool
}

// jfifDensity reads the density of a JFIF segment (ITU-T T.871, 10.1).
func jfifDensity(body []byte) density {
	if len(body) < 12 {
		return density{}
	}
	x, y := float64(binary.BigEndian.Uint16(body[8:])), float64(binary.BigEndian.Uint16(body[10:]))
	switch body[7] {
	case 1:
		return density{x, y, true}
	case 2:
		return density{x * 2.54, y * 2.54, true}
	default:
		return density{x, y, false}
	}
}

// density returns the pixel density of an Exif block.
func (e exif) density() density {
	if e.unit == 3 {
		return density{e.x * 2.54, e.y * 2.54, true}
	}
	return density{e.x, e.y, e.unit == 2}
}

// resolution returns the pixels per inch in both directions. It uses defaultResolution if d is not
// plausible.
func (d density) resolution() (x, y float64) {
	if d.absolute && d.x >= minResolution && d.x <= maxResolution && d.y >= minResolution && d.y <= maxResolution {
		return d.x, d.y
	}
	if !d.absolute && d.x > 0 && d.y > 0 && d.x/d.y < 10 && d.y/d.x < 10 {
		return defaultResolution, defaultResolution * d.y / d.x
	}
	return defaultResolution, defaultResolution
}
