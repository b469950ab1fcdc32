package kube

import (
	"io"
	"os"
	"strings"
	"unicode"

	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/printers"
)

// Terminal tells whether a stream is a terminal that a line can be written over on; TERM=dumb is none.
func Terminal(stream any) bool {
	return IsTerminal(stream) && os.Getenv("TERM") != "dumb"
}

// IsTerminal tells whether a stream is a terminal of any kind: nothing must reach it that commands it.
func IsTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Width is how many characters a line of a terminal has, 80 where it does not say.
func Width(stream any) int {
	const usual = 80
	file, ok := stream.(*os.File)
	if !ok {
		return usual
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil || width <= 0 {
		return usual
	}
	return width
}

// Colour tells whether what is written to a stream may have colours: it is a terminal, TERM is not dumb, and NO_COLOR is not set.
func Colour(stream io.Writer) bool { return printers.AllowsColorOutput(stream) }

// Text makes a text of somebody else fit for a terminal: what would command it, or show in another order than it stands, becomes
// U+FFFD. Lines stay lines.
func Text(s string) string {
	return strings.Map(func(r rune) rune {
		const joiner, nonJoiner = '\u200d', '\u200c' // parts of words and emoji
		if r == '\n' || r == '\t' || r == joiner || r == nonJoiner || unicode.IsPrint(r) || unicode.Is(unicode.Zs, r) {
			return r
		}
		return unicode.ReplacementChar
	}, strings.ReplaceAll(s, "\r\n", "\n"))
}

// Line is Text in one line.
func Line(s string) string { return strings.Join(strings.Fields(Text(s)), " ") }

// ForPeople is a stream for text that others may have written, fit for a terminal if it is one, and byte for byte if it is not.
func ForPeople(stream io.Writer) io.Writer {
	if IsTerminal(stream) {
		return cleanWriter{stream}
	}
	return stream
}

// cleanWriter writes texts, each of which is whole: none ends within a character.
type cleanWriter struct{ to io.Writer }

func (w cleanWriter) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.to, Text(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
