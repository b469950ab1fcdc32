package hearth_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	stateCell  = regexp.MustCompile(`\b(?:Pending|Running|Succeeded|Failed)/([A-Z][A-Za-z]+)`)
	quotedCell = regexp.MustCompile(`"([^"]+)"`)
	rowNumbers = regexp.MustCompile(`(\d+)(?:–(\d+))?`)
)

// R28, all rows: SPEC.md's table of what people see of a fault names each row once, no reason that no run shows, and no message that is not in
// the code.
func TestWhatPeopleSeeOfAFaultIsWhatTheCodeSays(t *testing.T) {
	const api = "api/v1alpha1/words.go"
	reasons := slices.Concat(constantsOf(t, api, "while it is Unknown", "Reason"), constantsOf(t, api, "Terminal reasons", "Reason"),
		constantsOf(t, "pkg/delivery/v1alpha1/envelope.go", "The reasons that an envelope", "Reason"))
	texts := texts(t)
	seen := map[int]int{}
	lines := 0
	for line := range strings.Lines(section(t, "SPEC.md", "## Faults")) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if len(cells) != 4 || !rowNumbers.MatchString(cells[1]) {
			continue
		}
		lines++
		for _, m := range rowNumbers.FindAllStringSubmatch(cells[1], -1) {
			from, err := strconv.Atoi(m[1])
			require.NoError(t, err)
			to := from
			if m[2] != "" {
				to, err = strconv.Atoi(m[2])
				require.NoError(t, err)
			}
			for ; from <= to; from++ {
				seen[from]++
			}
		}
		for _, m := range stateCell.FindAllStringSubmatch(cells[2], -1) {
			assert.Contains(t, reasons, m[1], "no run shows it: %s", cells[0])
		}
		for _, m := range quotedCell.FindAllStringSubmatch(cells[2], -1) {
			for part := range strings.SplitSeq(m[1], "…") { // what the code fills in
				if part = strings.Trim(part, " "); len(part) > 1 {
					if !strings.Contains(texts, part) { // not assert.Contains, which would print all texts
						assert.Failf(t, "no message of the code says that", "%q: %s", part, cells[0])
					}
				}
			}
		}
	}
	require.Greater(t, lines, 20, "the table was found")
	for row := 1; row <= 56; row++ {
		assert.Equal(t, 1, seen[row], "row %d stands in one line", row)
	}
	assert.Len(t, seen, 56)
}

// texts are all string constants of the code that is no test, with a newline between them.
func texts(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "ls-files", "controller/*.go", "delivery/*.go", "runtime/*.go").Output()
	require.NoError(t, err)
	var all strings.Builder
	for _, file := range strings.Fields(string(out)) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				if text, err := strconv.Unquote(literal.Value); err == nil {
					all.WriteString(text + "\n")
				}
			}
			return true
		})
	}
	return all.String()
}
