package hearth_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// constantsOf are the texts of the constants of a file whose name begins with prefix, in the const block whose comment contains about.
func constantsOf(t *testing.T, file, about, prefix string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
	require.NoError(t, err)
	var found []string
	for _, declaration := range parsed.Decls {
		block, ok := declaration.(*ast.GenDecl)
		if !ok || block.Tok != token.CONST || !strings.Contains(block.Doc.Text(), about) {
			continue
		}
		for _, spec := range block.Specs {
			value := spec.(*ast.ValueSpec) //nolint:forcetypeassert // of a const block
			if literal, ok := value.Values[0].(*ast.BasicLit); ok && strings.HasPrefix(value.Names[0].Name, prefix) {
				text, err := strconv.Unquote(literal.Value)
				require.NoError(t, err)
				found = append(found, text)
			}
		}
	}
	require.NotEmpty(t, found, "%s: %s", file, about)
	return found
}

// section is a document's text from a heading to the next of its level.
func section(t *testing.T, file, heading string) string {
	t.Helper()
	text, err := os.ReadFile(file) //nolint:gosec // a file of this repository
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(text), "\n"+heading+"\n")
	require.True(t, ok, "%s: %s", file, heading)
	level, _, _ := strings.Cut(heading, " ")
	rest, _, _ = strings.Cut(rest, "\n"+level+" ")
	return rest
}

var firstCell = regexp.MustCompile(`(?m)^\| ([A-Z][A-Za-z]+(?:, [A-Z][A-Za-z]+)*) \|`)

// explained are the words that a table's rows begin with.
func explained(text string) []string {
	var words []string
	for _, row := range firstCell.FindAllStringSubmatch(text, -1) {
		words = append(words, strings.Split(row[1], ", ")...)
	}
	return words
}

// R28: the reasons that a run can show are those of SPEC.md and of the tables for the person who is called. No word is missing there, and
// none is there that no run shows.
func TestReasonsAreThoseOfTheDocuments(t *testing.T) {
	const api = "api/v1alpha1/words.go"
	spec := section(t, "SPEC.md", "## Conditions")
	waiting := constantsOf(t, api, "while it is Unknown", "Reason")
	assert.ElementsMatch(t, waiting, explained(section(t, "docs/operating.md", "## Why does my run wait?")))
	_, listed, _ := strings.Cut(spec, "Waiting reasons: ")
	listed, _, _ = strings.Cut(listed, ".\n")
	assert.ElementsMatch(t, waiting, strings.Fields(strings.ReplaceAll(listed, ",", " ")))

	ends := append(constantsOf(t, api, "Terminal reasons", "Reason"), constantsOf(t, "pkg/delivery/v1alpha1/envelope.go", "The reasons that an envelope", "Reason")...)
	listed = section(t, "SPEC.md", "## Envelope") + spec
	table := explained(section(t, "docs/operating.md", "## How did my run end?"))
	for _, reason := range ends {
		assert.Contains(t, table, reason, "docs/operating.md")
		assert.Regexp(t, `\b`+reason+`\b`, listed, "SPEC.md")
	}
	for _, word := range table {
		assert.Contains(t, ends, word, "docs/operating.md has a reason that there is not")
	}
}

// R21: likewise the codes of admission.
func TestRefusalCodesAreThoseOfTheDocuments(t *testing.T) {
	codes := append(constantsOf(t, "api/v1alpha1/refusals.go", "The refusal codes", "Refusal"), "Forbidden", "Invalid")
	assert.ElementsMatch(t, codes, explained(section(t, "docs/operating.md", "## When a run is refused")))
	spec := section(t, "SPEC.md", "## Admission")
	for _, code := range codes {
		assert.Contains(t, spec, "`"+code+"`")
	}
}
