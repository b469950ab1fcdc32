package llm

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseFindsDirectivesInOrder(t *testing.T) {
	for _, tt := range []struct {
		name, goal string
		want       []Directive
	}{
		{"none says the first words", "Review the change in the payments service now please", []Directive{{Verb: VerbSay, Text: "done: Review the change in the payments service now"}}},
		{"inside a sentence", "Review say: PR 17: ok", []Directive{{Verb: VerbSay, Text: "PR 17: ok"}}},
		{"first verb of a part wins", "shell: echo say: hi", []Directive{{Verb: VerbShell, Text: "echo say: hi"}}},
		{"verb must start a word", "essay: no\nxslow: 3 say: yes", []Directive{{Verb: VerbSay, Text: "yes"}}},
		{"the full stop of a sentence", "Review it for slow: 3.", []Directive{{Verb: VerbSlow, Text: "3.", N: 3}}},
		{"lines and separators", "say: a ;; slow: 2\r\nhuge: 7\nfail: 503\nhang:", []Directive{
			{Verb: VerbSay, Text: "a"}, {Verb: VerbSlow, Text: "2", N: 2}, {Verb: VerbHuge, Text: "7", N: 7}, {Verb: VerbFail, Text: "503", N: 503}, {Verb: VerbHang}}},
		{"usage and finish", "usage: 10 20\nusage: none\nfinish: length\ngate: go", []Directive{
			{Verb: VerbUsage, Text: "10 20", Prompt: 10, N: 20}, {Verb: VerbUsage, Text: "none"}, {Verb: VerbFinish, Text: "length"}, {Verb: VerbGate, Text: "go"}}},
		{"empty say", "say:", []Directive{{Verb: VerbSay}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse(tt.goal)
			require.NoError(t, err)
			assert.Equal(t, tt.want, got)
		})
	}
}

func TestParseNamesTheDirectiveThatMakesNoSense(t *testing.T) {
	for goal, want := range map[string]string{
		"slow: soon":      `slow: expected seconds from 0 to 86400, got "soon"`,
		"slow: -1":        `slow: expected seconds from 0 to 86400, got "-1"`,
		"huge: 268435457": `huge: expected bytes from 0 to 268435456, got "268435457"`,
		"fail: 200":       `fail: expected an HTTP error status from 400 to 599, got "200"`,
		"shell:":          "shell: expected text after the colon",
		"gate:":           "gate: expected text after the colon",
		"mark:":           "mark: expected text after the colon",
		"finish: early":   `finish: expected stop, length or content_filter, got "early"`,
		"usage: 1":        `usage: expected "none" or two token counts, got "1"`,
		"usage: 1 x":      `usage: expected completion tokens from 0 to 2147483647, got "x"`,
		strings.Repeat("say: x\n", maxDirectives+1): "goal holds more than 64 directives",
	} {
		_, err := Parse(goal)
		assert.EqualError(t, err, want)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "say: hi ;; shell: true", "usage: 1 2\nfinish: stop", "slow: 99999999999999999999", "a\tsay:\x00 ;; ", "say:say: say:"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, goal string) {
		script, err := Parse(goal)
		if err != nil {
			assert.Nil(t, script)
			return
		}
		require.NotEmpty(t, script)
		assert.LessOrEqual(t, len(script), maxDirectives)
		for _, d := range script {
			assert.GreaterOrEqual(t, d.N, 0)
			assert.LessOrEqual(t, len(d.Text), len(goal)+len("done: "))
		}
	})
}
