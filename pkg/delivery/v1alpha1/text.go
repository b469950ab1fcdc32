package v1alpha1

import (
	"strings"
	"unicode/utf8"
)

// CleanText makes any bytes an agent emitted into valid UTF-8 without NUL: bad bytes and NULs become U+FFFD (SPEC.md, Envelope).
func CleanText(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// CutText keeps at most limit bytes of valid text and never half a rune.
func CutText(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	cut := max(0, limit)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut]
}
