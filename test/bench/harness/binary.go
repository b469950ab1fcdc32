package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/hearthdev/hearth/test/bench/figures"
)

// shownParts is how many of what the binary is made of are named.
const shownParts = 10

const (
	standard = "Go's standard library"
	others   = "type descriptions, strings and other data without a name of a package"
	unnamed  = "tables of functions and lines, and what else has no symbol"
	mib      = 1 << 20
)

// largest is how long a symbol may be that is in the file: what is longer is memory, such as that of FIPS 140's random numbers.
const largest = 4 * mib

// contents is how many bytes of the binary belong to what, by its symbols.
func contents(ctx context.Context, built binaries) (map[string]int64, error) {
	out, err := exec.CommandContext(ctx, "go", "tool", "nm", "-size", built.whole).Output() //nolint:gosec // ours
	if err != nil {
		return nil, fmt.Errorf("symbols: %w", err)
	}
	parts := map[string]int64{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line) // address, size, kind, name
		if len(fields) < 4 || fields[2] == "B" || fields[2] == "b" || fields[2] == "U" {
			continue // nothing in the file
		}
		size, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("symbols: %w", err)
		}
		if size > largest {
			continue
		}
		parts[owner(fields[3])] += size
	}
	return parts, nil
}

// owner is the module, or the part of one, that a symbol's package is in.
func owner(symbol string) string {
	symbol, _, _ = strings.Cut(strings.TrimPrefix(symbol, "go:itab."), "[")
	if strings.HasPrefix(symbol, "type:") || strings.HasPrefix(symbol, "go:") {
		return others
	}
	symbol = strings.TrimPrefix(strings.TrimPrefix(symbol, "*"), "vendor/")
	path, rest := "", symbol
	if at := strings.LastIndexByte(symbol, '/'); at >= 0 {
		path, rest = symbol[:at+1], symbol[at+1:]
	}
	name, _, dotted := strings.Cut(rest, ".")
	if !dotted && path == "" {
		return others
	}
	words := strings.Split(path+name, "/")
	if !strings.Contains(words[0], ".") {
		return standard
	}
	keep := 2 // host and module
	if words[0] == "github.com" || words[0] == "golang.org" {
		keep = 3
	}
	return strings.ReplaceAll(strings.Join(words[:min(len(words), keep)], "/"), "%2e", ".")
}

// sizes are the figures of the binary.
func sizes(built binaries, parts map[string]int64) []figures.Figure {
	var all []figures.Figure
	if info, err := os.Stat(built.harness); err == nil {
		all = append(all, figures.New("binary", "the harness, as images have it", "MiB", float64(info.Size())/mib))
	}
	if info, err := os.Stat(built.harness); err == nil {
		parts[unnamed] = info.Size()
		for name, size := range parts {
			if name != unnamed {
				parts[unnamed] -= size
			}
		}
	}
	names := slices.SortedFunc(maps.Keys(parts), func(a, b string) int { return cmp.Or(cmp.Compare(parts[b], parts[a]), cmp.Compare(a, b)) })
	for _, name := range names[:min(shownParts, len(names))] {
		all = append(all, figures.New("binary", "of it: "+name, "MiB", float64(parts[name])/mib))
	}
	return all
}
