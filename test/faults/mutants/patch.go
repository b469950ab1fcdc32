package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// patch is one protection taken away, as its file says before the diff begins:
//
//	Removes: what it protects against
//	Rows: 7, 8
//	Red: controller/deliver TestTwoAssigners
//	Red: test/faults TestRow07_TwoControllersAtOnce tags=faults
type patch struct {
	name, file string
	removes    string
	rows       []int
	red        []seer
}

// seer is a test that must see it.
type seer struct {
	suite
	test string
}

// suite is what one go test runs: tests of one package that are built alike.
type suite struct {
	pkg, tags string
	short     bool
}

func (s seer) String() string { return s.pkg + "." + s.test }

// readPatches reads all patches of a directory.
func readPatches(dir string) ([]patch, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.patch"))
	if err != nil {
		return nil, fmt.Errorf("patches: %w", err)
	}
	var all []patch
	for _, file := range files {
		text, err := os.ReadFile(file) //nolint:gosec // the caller's choice
		if err != nil {
			return nil, fmt.Errorf("patches: %w", err)
		}
		p, err := parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
		if p.file, err = filepath.Abs(file); err != nil {
			return nil, fmt.Errorf("patches: %w", err)
		}
		p.name = strings.TrimSuffix(filepath.Base(file), ".patch")
		all = append(all, p)
	}
	return all, nil
}

// parse reads what stands before the diff.
func parse(text string) (patch, error) {
	var p patch
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "--- ") || strings.HasPrefix(line, "diff ") {
			break
		}
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.TrimSpace(value)
		var err error
		switch key {
		case "":
		case "Removes":
			p.removes = value
		case "Rows":
			p.rows, err = numbers(value)
		case "Red":
			var s seer
			s, err = parseSeer(value)
			p.red = append(p.red, s)
		default:
			err = fmt.Errorf("%q: expected Removes, Rows or Red", key)
		}
		if err != nil {
			return patch{}, err
		}
	}
	switch {
	case p.removes == "":
		return patch{}, fmt.Errorf("Removes: expected what it takes away")
	case len(p.red) == 0:
		return patch{}, fmt.Errorf("Red: expected at least one test")
	}
	return p, nil
}

func parseSeer(value string) (seer, error) {
	words := strings.Fields(value)
	if len(words) < 2 || !strings.HasPrefix(words[1], "Test") {
		return seer{}, fmt.Errorf("Red: expected a package below the module and the name of a test, got %q", value)
	}
	s := seer{suite: suite{pkg: words[0]}, test: words[1]}
	for _, word := range words[2:] {
		switch tags, is := strings.CutPrefix(word, "tags="); {
		case is:
			s.tags = tags
		case word == "short":
			s.short = true
		default:
			return seer{}, fmt.Errorf("Red: expected tags= or short, got %q", word)
		}
	}
	return s, nil
}

func numbers(value string) ([]int, error) {
	var all []int
	for _, word := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' }) {
		n, err := strconv.Atoi(word)
		if err != nil {
			return nil, fmt.Errorf("Rows: expected numbers: %w", err)
		}
		all = append(all, n)
	}
	return all, nil
}
