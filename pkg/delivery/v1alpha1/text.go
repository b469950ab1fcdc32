package v1alpha1

import (
	"crypto/sha256"
	"encoding/base64"
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

// CutEncoded keeps as much of valid text as takes at most limit bytes in a JSON string, the quotes not counted, and never half a
// rune.
func CutEncoded(s string, limit int) string {
	for i, r := range s {
		if limit -= quotedRune(r); limit < 0 {
			return s[:i]
		}
	}
	return s
}

// quotedBytes is how long valid text is in a JSON string, the quotes not counted.
func quotedBytes(s string) int {
	n := 0
	for _, r := range s {
		n += quotedRune(r)
	}
	return n
}

// quotedRune is how long Encode writes a rune within a string (RFC 8785, 3.2.2.2).
func quotedRune(r rune) int {
	switch {
	case r == '"' || r == '\\' || r == '\b' || r == '\f' || r == '\n' || r == '\r' || r == '\t':
		return len(`\n`)
	case r < ' ':
		return len(`\u0000`)
	default:
		return utf8.RuneLen(r)
	}
}

// WholeText describes a text before it is cut.
func WholeText(text string) *Truncation {
	sum := sha256.Sum256([]byte(text))
	return Whole(int64(len(text)), sum[:])
}

// Whole describes a text of that many bytes, of which only a part was kept, by its SHA-256.
func Whole(size int64, sum []byte) *Truncation {
	return &Truncation{OriginalBytes: size, SHA256: base64.RawURLEncoding.EncodeToString(sum)}
}
