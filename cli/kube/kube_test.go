package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// chosen is an Env with a command line's flags.
func chosen(t *testing.T, args ...string) *Env {
	t.Helper()
	env, flags := New("hearth", genericiooptions.NewTestIOStreamsDiscard()), pflag.NewFlagSet("test", pflag.ContinueOnError)
	env.Bind(flags)
	require.NoError(t, flags.Parse(args))
	return env
}

func TestWhatTheProgramIsCalled(t *testing.T) {
	for program, want := range map[string]string{
		"/usr/bin/hearth": "hearth", "kubectl-hearth": "kubectl hearth", "/x/kubectl-hearth.exe": "kubectl hearth", "./hearth": "hearth",
	} {
		assert.Equal(t, want, New(program, genericiooptions.IOStreams{}).Program)
	}
}

// A command line that is told can be typed: it goes to the same cluster and namespace.
func TestToldCommandLinesGoToTheSameCluster(t *testing.T) {
	env := chosen(t, "--context", "it's", "-n", "team", "--as", "ada")
	assert.Equal(t, `hearth wait x -n team --context 'it'\''s'`, env.Command("wait", "x"))
	assert.True(t, env.Chosen())
	env = chosen(t)
	assert.Equal(t, "hearth runs", env.Command("runs"))
	assert.False(t, env.Chosen())
	assert.Equal(t, "''", quoted(""))
	assert.Equal(t, "'a;b'", quoted("a;b"))
}

func TestWithoutAKubeconfigItSaysSo(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	_, err := chosen(t).Client()
	require.ErrorIs(t, err, errNoCluster)
	assert.Equal(t, ExitUnavailable, Code(err))
	_, err = chosen(t, "--context", "nosuch").Client()
	assert.ErrorContains(t, err, `context "nosuch" does not exist`)
	assert.Equal(t, ExitUnavailable, Code(err))
	config, err := chosen(t, "--server", "localhost:8080").Config()
	require.NoError(t, err, "somebody who names it means it")
	assert.Equal(t, "localhost:8080", config.Host)
}

// R55: no cluster, no Hearth in it, no right: each says what to do next.
func TestEachErrorSaysWhatToDoNext(t *testing.T) {
	runs := schema.GroupResource{Group: "hearth.dev", Resource: "agentruns"}
	refusedConnection := &url.Error{Op: "Get", URL: "https://k", Err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}}
	for _, c := range []struct {
		err        error
		code       int
		says, next string
	}{
		{&meta.NoKindMatchError{}, ExitUnavailable, "this cluster has no Agents: Hearth is not installed", "hearth doctor"},
		{apierrors.NewGenericServerResponse(404, "get", runs, "", "page not found", 0, true), ExitUnavailable, "Hearth is not installed", "hearth doctor"},
		{apierrors.NewForbidden(runs, "x", errors.New("no")), ExitUnavailable, "forbidden", "hearth doctor says which rights you lack"},
		{apierrors.NewUnauthorized("no"), ExitUnavailable, "does not know who you are", "log in again"},
		{apierrors.NewNotFound(runs, "x"), ExitFailed, `"x" not found`, "-n chooses another namespace"},
		{refusedConnection, ExitUnavailable, "the API server does not answer", "hearth doctor"},
		{fmt.Errorf("dial: %w", refusedConnection), ExitUnavailable, "the API server does not answer", "hearth doctor"},
		{apierrors.NewInternalError(errors.New("failed calling webhook")), ExitUnavailable, "failed calling webhook", "hearth doctor"},
		{apierrors.NewServiceUnavailable("etcd"), ExitUnavailable, "etcd", "hearth doctor"},
		{errors.New("else"), ExitFailed, "else", ""},
		{Usage("--x: expected y"), ExitUsage, "--x: expected y", ""},
	} {
		err := chosen(t).Explain(c.err)
		assert.Equal(t, c.code, Code(err), c.says)
		assert.ErrorContains(t, err, c.says)
		var failure *Failure
		if errors.As(err, &failure) {
			assert.Contains(t, failure.Next, c.next)
		} else {
			assert.Empty(t, c.next)
		}
	}
	assert.NoError(t, chosen(t).Explain(nil))
	assert.Equal(t, ExitDone, Code(nil))
	assert.Equal(t, ExitInterrupted, Code(fmt.Errorf("get: %w", context.Canceled)))
	assert.Equal(t, "exit code 6", (&Failure{Code: 6}).Error())
}

// What somebody else wrote commands no terminal, and does not show in another order than it stands.
func TestTextOfOthersIsFitForATerminal(t *testing.T) {
	for given, want := range map[string]string{
		"plain\ttext\r\nand more\n":    "plain\ttext\nand more\n",
		"\x1b[2J\x1b]0;title\x07":      "�[2J�]0;title�",
		"\u009b31m red":                "�31m red",
		"over\rwritten \b\x7f\x00":     "over�written ���",
		"abc\u202etxt.exe\u2066\u200f": "abc�txt.exe��",
		"bad \xff\xfe":                 "bad ��",
		"äöü 漢字 👩\u200d👩\u200d👦 e\u0301 \u00a0": "äöü 漢字 👩\u200d👩\u200d👦 e\u0301 \u00a0",
		"\u2028\u2029\ufeff\U000e0041":          "����",
	} {
		assert.Equal(t, want, Text(given), "%q", given)
	}
	assert.Equal(t, "two lines, one", Line("two\n\n lines,\tone "))
}

// On a pipe nothing is changed, and there is no colour.
func TestAPipeGetsEveryByte(t *testing.T) {
	reads, writes, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = reads.Close() })
	assert.False(t, IsTerminal(writes))
	assert.False(t, Terminal(writes))
	assert.False(t, Colour(writes))
	assert.Equal(t, 80, Width(writes))
	assert.Equal(t, 80, Width(&bytes.Buffer{}))
	_, err = ForPeople(writes).Write([]byte("\x1b[31m\xff"))
	require.NoError(t, err)
	require.NoError(t, writes.Close())
	got := make([]byte, 64)
	n, err := reads.Read(got)
	require.NoError(t, err)
	assert.Equal(t, "\x1b[31m\xff", string(got[:n]))

	var b bytes.Buffer
	n, err = cleanWriter{&b}.Write([]byte("\x1b[31m"))
	require.NoError(t, err)
	assert.Equal(t, 5, n)
	assert.Equal(t, "�[31m", b.String())
}

func TestFormatsOfOutput(t *testing.T) {
	run := func() *hearthv1.AgentRun { return &hearthv1.AgentRun{ObjectMeta: metav1.ObjectMeta{Name: "x"}} }
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-o", "name"}, "agentrun.hearth.dev/x\n"},
		{[]string{"-o", "jsonpath={.kind}"}, "AgentRun"},
		{[]string{"--template", "{{.metadata.name}}"}, "x"},
		{[]string{"-o", "yaml"}, "apiVersion: hearth.dev/v1alpha1\nkind: AgentRun\nmetadata:\n  name: x\nspec: {}\n"},
	} {
		streams, _, out, _ := genericiooptions.NewTestIOStreams()
		o, command := NewOutput(true), &cobra.Command{Use: "test"}
		o.Bind(command)
		require.NoError(t, command.ParseFlags(c.args))
		require.NoError(t, o.Check())
		table, _ := o.Table()
		assert.False(t, table)
		assert.True(t, o.Asked())
		require.NoError(t, o.Object(&Env{IOStreams: streams}, run()))
		assert.Equal(t, c.want, out.String())
	}
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	o, command := NewOutput(true), &cobra.Command{Use: "test"}
	o.Bind(command)
	require.NoError(t, command.ParseFlags([]string{"-o", "json"}))
	require.NoError(t, o.Object(&Env{IOStreams: streams}, &hearthv1.AgentRunList{Items: []hearthv1.AgentRun{*run()}}))
	assert.Contains(t, out.String(), `"kind": "AgentRunList"`)
	assert.Contains(t, out.String(), `"kind": "AgentRun",`)

	o, command = NewOutput(false), &cobra.Command{Use: "test"}
	o.Bind(command)
	require.NoError(t, command.ParseFlags([]string{"-o", "wide"}))
	assert.Equal(t, ExitUsage, Code(o.Check()), "this command has no table")
}

func TestATableIsALinePerRow(t *testing.T) {
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	o := NewOutput(true)
	table := func(cells ...any) *metav1.Table {
		return &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{Column("name", false), Column("message", true)}, Rows: []metav1.TableRow{{Cells: cells}}}
	}
	require.NoError(t, o.Rows(&Env{IOStreams: streams}, true, table("narrow", "not shown")))
	*o.flags.OutputFormat = "wide"
	require.NoError(t, o.Rows(&Env{IOStreams: streams}, false, table("a-rather-long-name", "y")))
	require.NoError(t, o.Rows(&Env{IOStreams: streams}, false, table("x", "\x1b[2Jone\ntwo")))
	assert.Equal(t, "NAME\nnarrow\na-rather-long-name   y\nx                    �[2Jone two\n", out.String())
}
