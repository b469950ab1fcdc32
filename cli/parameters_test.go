package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/cli/kube"
)

func TestParametersAreReadAsTheyAre(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		return filepath.Join(dir, name)
	}
	text := file("text", "two\nlines\n")
	yaml := file("p.yaml", "change: PR 17\ndepth: \"2\"\n")
	big := file("big", strings.Repeat("x", hearthv1.MaxGoalBytes+1))
	for _, c := range []struct {
		given []string
		file  string
		stdin string
		want  map[string]string
		fails string
	}{
		{},
		{given: []string{"a=b", "c=d=e", "empty="}, want: map[string]string{"a": "b", "c": "d=e", "empty": ""}},
		{given: []string{"a=@" + text}, want: map[string]string{"a": "two\nlines\n"}},
		{given: []string{"a=-"}, stdin: "from stdin\n", want: map[string]string{"a": "from stdin\n"}},
		{given: []string{"a=@-"}, stdin: "too", want: map[string]string{"a": "too"}},
		{given: []string{"a=@@ada", "b=x@y"}, want: map[string]string{"a": "@ada", "b": "x@y"}},
		{file: yaml, want: map[string]string{"change": "PR 17", "depth": "2"}},
		{file: yaml, given: []string{"depth=3"}, want: map[string]string{"change": "PR 17", "depth": "3"}},
		{file: "-", stdin: `{"a": "json"}`, want: map[string]string{"a": "json"}},

		{given: []string{"secret"}, fails: `-p: expected NAME=VALUE, NAME=@FILE or NAME=-`},
		{given: []string{"=x"}, fails: "-p: expected NAME=VALUE"},
		{given: []string{"a=1", "a=2"}, fails: "-p a: expected each parameter once"},
		{given: []string{"a=@/no/such"}, fails: "-p a: open /no/such: no such file"},
		{given: []string{"a=@" + dir}, fails: "-p a: read " + dir},
		{given: []string{"a=-", "b=-"}, fails: "-p b: stdin is read by -p a already"},
		{given: []string{"a=-"}, file: "-", fails: "-p a: stdin is read by -f already"},
		{given: []string{"a=@" + big}, fails: "-p a: expected at most 262144 bytes"},
		{given: []string{"a=\xff"}, fails: `parameter "a": expected text in UTF-8`},
		{file: "-", stdin: "a: 1.10", fails: "-f -: a: expected text, got a number: put it in quotes"},
		{file: "-", stdin: "a: no", fails: "-f -: a: expected text, got a boolean: put it in quotes"},
		{file: "-", stdin: "a: [x]", fails: "got a list"},
		{file: "-", stdin: "a: {x: y}", fails: "got a mapping"},
		{file: "-", stdin: "a:", fails: "got a null"},
		{file: "-", stdin: "a: x\na: y", fails: "has a name twice"},
		{file: "-", stdin: "- x", fails: "it is no YAML mapping"},
	} {
		got, err := parameters{given: c.given, file: c.file}.read(strings.NewReader(c.stdin))
		if c.fails != "" {
			require.ErrorContains(t, err, c.fails)
			assert.Equal(t, kube.ExitUsage, kube.Code(err))
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, c.want, got)
	}
	_, err := parameters{given: []string{"a=-"}}.read(broken{})
	assert.ErrorContains(t, err, "-p a: no more")
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("no more") }

func TestNamesAreTakenAsOtherCommandsPrintThem(t *testing.T) {
	for _, name := range []string{"x", "run/x", "agentrun/x", "agentruns.hearth.dev/x", "AgentRun/x"} {
		assert.Equal(t, "x", runName(name))
	}
	assert.Equal(t, "pod/x", runName("pod/x"))
	for _, name := range []string{"x", "agent/x", "agents.hearth.dev/x"} {
		assert.Equal(t, "x", agentName(name))
	}
}
