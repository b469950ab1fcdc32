package main

import (
	"strings"
	"unicode"
)

// arguments splits a command line into the command, "" if there is none, and what follows it.
func arguments(line []string) (command string, args []string) {
	if len(line) < 2 {
		return "", nil
	}
	return line[1], line[2:]
}

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
