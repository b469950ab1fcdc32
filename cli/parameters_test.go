package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"

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
		got, err := parameters{given: c.given, file: c.file}.read(t.Context(), strings.NewReader(c.stdin))
		if c.fails != "" {
			require.ErrorContains(t, err, c.fails)
			assert.Equal(t, kube.ExitUsage, kube.Code(err))
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, c.want, got)
	}
	_, err := parameters{given: []string{"a=-"}}.read(t.Context(), broken{})
	assert.ErrorContains(t, err, "-p a: no more")
}

// One Ctrl-C is enough, though nobody writes; and what had come by then may be half of it.
func TestWhoIsInterruptedReadsNoParameters(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	for _, args := range [][]string{{"-p", "a=-"}, {"-f", "-"}, {"-p", "a=@" + pipe}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			stdin, writer := io.Pipe()
			t.Cleanup(func() { _ = writer.Close() })
			var stdout, stderr bytes.Buffer
			env := kube.New("hearth", genericiooptions.IOStreams{In: stdin, Out: &stdout, ErrOut: &stderr})
			code := make(chan int, 1)
			go func() { code <- Run(ctx, env, append([]string{"run", "x"}, args...)) }()
			if args[len(args)-1] != "a=@"+pipe {
				_, err := writer.Write([]byte("half of"))
				require.NoError(t, err)
			}
			interrupt()
			select {
			case got := <-code:
				assert.Equal(t, kube.ExitInterrupted, got)
				assert.Empty(t, stdout.String()+stderr.String())
			case <-time.After(time.Minute):
				require.Fail(t, "it still reads")
			}
		})
	}
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	_, err := parameters{given: []string{"a=-"}}.read(ctx, strings.NewReader("half of"))
	assert.ErrorIs(t, err, context.Canceled)
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
