package main

import (
	"strings"
	"unicode"
)

// oneLine is an error as the last line of a log. It may hold an agent's stderr, which must neither pose as lines of ours nor
// command a terminal.
func oneLine(err error) string {
	text := strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ")
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}
