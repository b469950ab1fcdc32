package view

import (
	"unicode"
	"unicode/utf8"
)

const (
	joiner, nonJoiner = '\u200d', '\u200c' // parts of words and of emoji
	pictures          = 0x2400             // of the control characters, in Unicode's own order
	deletePicture     = 0x2421
)

// Clean appends a text of somebody else, fit for a terminal: what would command it is shown as the picture of the character, or as
// U+FFFD where it has none, and so are characters that change the order in which text is read. Newlines and tabs stay; a carriage return
// before a newline or at the end goes.
func Clean(dst, text []byte) []byte {
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		text = text[size:]
		switch {
		case r == '\n' || r == '\t' || r == joiner || r == nonJoiner:
			dst = utf8.AppendRune(dst, r)
		case r == '\r':
			if len(text) > 0 && text[0] != '\n' {
				dst = utf8.AppendRune(dst, pictures+r)
			}
		case r < ' ':
			dst = utf8.AppendRune(dst, pictures+r)
		case r == 0x7f:
			dst = utf8.AppendRune(dst, deletePicture)
		case unicode.IsPrint(r) || unicode.Is(unicode.Zs, r):
			dst = utf8.AppendRune(dst, r)
		default:
			dst = utf8.AppendRune(dst, utf8.RuneError)
		}
	}
	return dst
}

// Line is Clean in one line of at most so many characters.
func Line(text string, width int) string {
	const roomy = utf8.UTFMax // bytes a character; more of a text cannot be shown
	if limit := (width + 1) * roomy; len(text) > limit*2 {
		text = text[:limit*2] // spaces go
	}
	var out []rune
	space := false
	for _, r := range string(Clean(nil, []byte(text))) {
		if unicode.IsSpace(r) {
			space = len(out) > 0
			continue
		}
		if space {
			out = append(out, ' ')
		}
		space = false
		out = append(out, r)
		if len(out) > width {
			return string(out[:max(width-1, 0)]) + "…"
		}
	}
	return string(out)
}
