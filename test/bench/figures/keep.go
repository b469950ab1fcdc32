package figures

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Where results are kept and shown, in the repository.
const (
	ResultsDir = "test/bench/results"
	PageFile   = "docs/performance.md"
)

// Merge is a result in which the figures of newer replace those of older with the same ID. What only older has stays, in its place, if it
// was measured on the same machine: a result names one.
func Merge(older, newer Result) Result {
	if older.Machine != newer.Machine {
		return newer
	}
	merged := Result{Machine: newer.Machine}
	added := map[string]bool{}
	add := func(id string) {
		if added[id] {
			return
		}
		added[id] = true
		merged.Figures = append(merged.Figures, with(newer.Figures, id)...)
	}
	for _, f := range older.Figures {
		if len(with(newer.Figures, f.ID)) > 0 {
			add(f.ID)
		} else {
			merged.Figures = append(merged.Figures, f)
		}
	}
	for _, f := range newer.Figures {
		add(f.ID)
	}
	return merged
}

func with(all []Figure, id string) []Figure {
	return slices.DeleteFunc(slices.Clone(all), func(f Figure) bool { return f.ID != id })
}

// Read reads a result that was kept, such as bench.json. One that there is not is an error of os.ErrNotExist.
func Read(root, name string) (Result, error) {
	var r Result
	text, err := os.ReadFile(filepath.Join(root, ResultsDir, name))
	if err != nil {
		return r, fmt.Errorf("read a result: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r); err != nil {
		return r, fmt.Errorf("read %s: %w", name, err)
	}
	return r, nil
}

// Write keeps a result under a name such as bench.json, and shows it on the page where that has a block for it.
func Write(root, name string, r Result) error {
	text, err := encode(r)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := os.WriteFile(filepath.Join(root, ResultsDir, name), text, 0o644); err != nil { //nolint:gosec // for everybody to read
		return fmt.Errorf("write a result: %w", err)
	}
	page := filepath.Join(root, PageFile)
	before, err := os.ReadFile(page)
	if err != nil {
		return fmt.Errorf("show a result: %w", err)
	}
	after, err := Fill(string(before), name, Table(r))
	if err != nil {
		return fmt.Errorf("show a result on %s: %w", PageFile, err)
	}
	if err := os.WriteFile(page, []byte(after), 0o644); err != nil { //nolint:gosec // for everybody to read
		return fmt.Errorf("show a result: %w", err)
	}
	return nil
}

// encode is the JSON that is kept: indented, with sorted keys, so that a change shows as few lines.
func encode(r Result) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	var sorted any
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &sorted); err != nil {
		return nil, err
	}
	err = e.Encode(sorted)
	return b.Bytes(), err
}

func begin(name string) string { return "<!-- " + name + ": generated, do not edit -->\n" }

const end = "<!-- end -->\n"

// Fill puts text into a page's block of a result, which its two lines <!-- NAME: generated, do not edit --> and <!-- end --> enclose.
func Fill(page, name, text string) (string, error) {
	before, rest, found := strings.Cut(page, begin(name))
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		return "", fmt.Errorf("expected a block of the lines %q and %q", strings.TrimSpace(begin(name)), strings.TrimSpace(end))
	}
	return before + begin(name) + text + end + after, nil
}
