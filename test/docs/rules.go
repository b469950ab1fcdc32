package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// languages are what a block may hold. Commands are sh, commands with their output console, output alone text.
var languages = []string{"sh", "console", "text", "yaml", "json", "js", "go", "mermaid", "promql", "containerfile"}

// Problem says what is wrong with a block, or nothing.
func (b Block) Problem(root string) string {
	commands := b.Language == "sh" || b.Language == "console"
	switch {
	case !slices.Contains(languages, b.Language):
		return fmt.Sprintf("expected a language of %v behind the fence, got %q", languages, b.Language)
	case commands && (b.Mark == "" || b.Mark == File && b.Language == "console"):
		return "expected a comment right above it: run, tested by, or not run with a reason"
	case b.Mark == Run && b.Language != "sh":
		return "only a block of sh can be run: what is printed stands in a block of its own"
	case b.Mark == NotRun && len(strings.Fields(b.Said)) < 3:
		return "expected a reason in words why it is not run"
	case b.Mark == TestedBy:
		return tested(root, b.Said)
	case b.Mark == File:
		return b.sameAs(root)
	}
	return ""
}

// tested says what is missing of "PATH WORD".
func tested(root, said string) string {
	path, word, _ := strings.Cut(said, " ")
	content, err := os.ReadFile(filepath.Join(root, path)) // #nosec G304 -- a file that our own page names
	if err != nil {
		return fmt.Sprintf("tested by: expected a file of ours, got %q", path)
	}
	if word == "" || !strings.Contains(string(content), word) {
		return fmt.Sprintf("tested by: %s does not have %q", path, word)
	}
	return ""
}

// sameAs says where the block and its file are not the same. The comment that a file begins with is its own.
func (b Block) sameAs(root string) string {
	content, err := os.ReadFile(filepath.Join(root, b.Said)) // #nosec G304 -- a file that our own page names
	if err != nil {
		return fmt.Sprintf("file: expected a file of ours, got %q", b.Said)
	}
	text := string(content)
	for strings.HasPrefix(text, "#") {
		_, text, _ = strings.Cut(text, "\n")
	}
	if strings.TrimSpace(text) != strings.TrimSpace(b.Code) {
		return fmt.Sprintf("expected what %s holds below its comment", b.Said)
	}
	return ""
}
