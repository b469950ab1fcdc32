package docs

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Block is a fenced block of a page.
type Block struct {
	// Page is the path of its file below the project's directory, Line the line of its first fence.
	Page string
	Line int
	// Language is the word behind the fence.
	Language string
	// Mark is the comment right above it: Run, TestedBy, NotRun, File or none. Said is what follows its colon.
	Mark, Said string
	// Code is what is between the fences, less the indentation of the first.
	Code string
}

// The marks of blocks.
const (
	Run      = "run"
	TestedBy = "tested by"
	NotRun   = "not run"
	File     = "file"
)

var (
	mark  = regexp.MustCompile(`^\s*<!-- (run|tested by|not run|file): (.+?) -->$`)
	fence = regexp.MustCompile("^(\\s*)```(.*)$")
)

// Pages are the files that people read, by their paths below root.
func Pages(root string) ([]string, error) {
	var pages []string
	for _, pattern := range []string{"README.md", "docs/*.md", "images/README.md", "examples/*/README.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, fmt.Errorf("pages: %w", err)
		}
		for _, path := range found {
			page, err := filepath.Rel(root, path)
			if err != nil {
				return nil, fmt.Errorf("pages: %w", err)
			}
			pages = append(pages, page)
		}
	}
	return pages, nil
}

// Blocks reads those of a page. A block that does not end is an error.
func Blocks(root, page string) ([]Block, error) {
	content, err := os.ReadFile(filepath.Join(root, page)) // #nosec G304 -- a page of ours
	if err != nil {
		return nil, fmt.Errorf("blocks: %w", err)
	}
	return parse(page, content)
}

func parse(page string, content []byte) ([]Block, error) {
	var (
		blocks []Block
		open   *Block
		indent string
		above  []string // the mark on the line before, if it is one
	)
	lines := bufio.NewScanner(bytes.NewReader(content))
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		edge := fence.FindStringSubmatch(line)
		switch {
		case open == nil && edge != nil:
			open, indent = &Block{Page: page, Line: n, Language: edge[2]}, edge[1]
			if above != nil {
				open.Mark, open.Said = above[1], above[2]
			}
		case open == nil:
			above = mark.FindStringSubmatch(line)
		case edge != nil && edge[2] == "":
			blocks = append(blocks, *open)
			open, above = nil, nil
		default:
			open.Code += strings.TrimPrefix(line, indent) + "\n"
		}
	}
	if open != nil {
		return nil, fmt.Errorf("%s:%d: expected an end of the block", page, open.Line)
	}
	return blocks, lines.Err()
}
