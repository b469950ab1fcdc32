package faults

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var write = flag.Bool("update", false, "write docs/faults.md")

const (
	root         = "../../"
	page         = root + "docs/faults.md"
	requirements = root + "docs/requirements.md"
	rowCount     = 56
	own          = "test/faults"
)

// Every row has the words of docs/requirements.md, in its order, and is proven by tests that exist; and every case of ours is registered
// with its row.
func TestTheTableOfRows(t *testing.T) {
	rows := Rows()
	require.Len(t, rows, rowCount)
	wanted := required(t)
	functions := map[string]map[string]bool{}
	registered := map[string]bool{}
	for i, row := range rows {
		assert.Equal(t, i+1, row.Number)
		assert.Equal(t, wanted[row.Number], row.Fault+" | "+row.End, "row %d says what docs/requirements.md says", row.Number)
		assert.NotEmpty(t, row.Places, "row %d is proven nowhere", row.Number)
		seen := map[Place]bool{}
		for _, p := range row.Places {
			assert.False(t, seen[p], "row %d names %s twice", row.Number, p.Test)
			seen[p] = true
			if p.Why == Open {
				continue
			}
			if functions[p.Package] == nil {
				functions[p.Package] = testsOf(t, p.Package)
			}
			assert.True(t, functions[p.Package][p.Test], "row %d: %s has no %s", row.Number, p.Package, p.Test)
			if p.Package == own {
				registered[fmt.Sprintf("%d %s", row.Number, p.Test)] = true
			}
		}
	}
	for name := range testsOf(t, own) {
		if n := caseName.FindStringSubmatch(name); n != nil {
			number, err := strconv.Atoi(n[1])
			require.NoError(t, err)
			assert.True(t, registered[fmt.Sprintf("%d %s", number, name)], "%s is not registered with row %d", name, number)
		}
	}
	if text := describe(rows); *write {
		require.NoError(t, os.WriteFile(page, []byte(text), 0o600))
	} else {
		committed, err := os.ReadFile(page)
		require.NoError(t, err)
		assert.Equal(t, string(committed), text, "docs/faults.md is not what the register says: go test ./test/faults -run TestTheTableOfRows -update")
	}
}

var (
	caseName    = regexp.MustCompile(`^TestRow(\d+)_`)
	requiredRow = regexp.MustCompile(`(?m)^\| (\d+) \| (.*) \| (.*) \|$`)
)

// required are the rows of docs/requirements.md.
func required(t *testing.T) map[int]string {
	t.Helper()
	text, err := os.ReadFile(requirements)
	require.NoError(t, err)
	rows := map[int]string{}
	for _, m := range requiredRow.FindAllStringSubmatch(string(text), -1) {
		n, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		rows[n] = m[2] + " | " + m[3]
	}
	require.Len(t, rows, rowCount)
	return rows
}

// testsOf are the test functions of a package, whatever tags they need.
func testsOf(t *testing.T, pkg string) map[string]bool {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
	require.NoError(t, err)
	tests := map[string]bool{}
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				tests[f.Name.Name] = true
			}
		}
	}
	return tests
}

const preamble = `# Faults

What Hearth does when something breaks, and which tests show it. The rows are those of [requirements.md](requirements.md); what is promised is in
[SPEC.md](../SPEC.md), Faults. This page is written from the register in ` + "`test/faults/rows.go`" + ` and its files beside it: a test that is renamed, or a
case that nobody registered, fails ` + "`make test`" + `.

| proven with | means | run by |
| --- | --- | --- |
| real processes | controllers or harnesses as processes of their own, killed, stopped, cut off | ` + "`make faults`, `make test`" + ` (cmd/harness, test/hostile) |
| a real kubelet | a cluster of one node, real goose | ` + "`make e2e`" + ` |
| a real API server | the controller's parts against it, the harness inside the test | ` + "`make test`" + ` |
| one component | by itself, over real files, connections or processes where it has some | ` + "`make test`" + ` |
| an injected clock | what takes minutes | ` + "`make test`" + ` |
| a pure decision | values in, values out: a line of a table for each case | ` + "`make test`" + ` |
| random order | a model of everything at once, with failures made small | ` + "`make test`" + ` |

After each case on real processes, what was seen is held against I1 to I8 (` + "`test/faults/invariant`" + `), over every version of every run that the API server
told of (` + "`test/faults/history`" + `).
`

func describe(rows []Row) string {
	var b strings.Builder
	b.WriteString(preamble)
	b.WriteString("\n| # | fault | shown with |\n| --- | --- | --- |\n")
	for _, row := range rows {
		var with []string
		for _, p := range row.Places {
			if !slices.Contains(with, string(p.Why)) {
				with = append(with, string(p.Why))
			}
		}
		fmt.Fprintf(&b, "| %d | %s | %s |\n", row.Number, row.Fault, strings.Join(with, ", "))
	}
	for _, row := range rows {
		fmt.Fprintf(&b, "\n## %d. %s\n\n%s.\n\n", row.Number, row.Fault, row.End)
		for i, p := range row.Places {
			before := Place{}
			if i > 0 {
				before = row.Places[i-1]
			}
			switch {
			case p.Why == Open:
				fmt.Fprintf(&b, "- %s: %s\n", p.Why, p.Test)
			case p.Why == before.Why && p.Package == before.Package:
				fmt.Fprintf(&b, "  `%s`\n", p.Test)
			default:
				fmt.Fprintf(&b, "- %s, `%s`:\n  `%s`\n", p.Why, p.Package, p.Test)
			}
		}
	}
	return b.String()
}
