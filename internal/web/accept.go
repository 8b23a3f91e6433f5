package web

import (
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// Accepted returns the media type among the offered ones that a client prefers according to its
// header Accept (RFC 9110, 12.5.1). Of types with the same weight, the first offered type is preferred.
// If the client accepts none of the types, or the header is absent, Accepted returns the first type.
func Accepted(r *http.Request, offered ...string) string {
	best, weight := offered[0], 0.0
	var ranges []mediaRange
	for _, header := range r.Header.Values("Accept") {
		for part := range strings.SplitSeq(header, ",") {
			if m, ok := parseRange(part); ok {
				ranges = append(ranges, m)
			}
		}
	}
	for _, o := range offered {
		if q := weightOf(ranges, o); q > weight {
			best, weight = o, q
		}
	}
	return best
}

// mediaRange is an element of the header Accept.
type mediaRange struct {
	pattern string
	weight  float64
}

func parseRange(text string) (mediaRange, bool) {
	pattern, parameters, err := mime.ParseMediaType(text)
	if err != nil {
		return mediaRange{}, false
	}
	m := mediaRange{pattern, 1}
	if q, ok := parameters["q"]; ok {
		if m.weight, err = strconv.ParseFloat(q, 64); err != nil {
			return mediaRange{}, false
		}
	}
	return m, true
}

// weightOf returns the weight of the most specific range that matches a media type, or 0 if none matches.
func weightOf(ranges []mediaRange, mediaType string) (weight float64) {
	specific := 0
	kind, _, _ := strings.Cut(mediaType, "/")
	for _, m := range ranges {
		level := 0
		switch m.pattern {
		case mediaType:
			level = 3
		case kind + "/*":
			level = 2
		case "*/*":
			level = 1
		default:
		}
		if level > specific {
			specific, weight = level, m.weight
		}
	}
	return weight
}
