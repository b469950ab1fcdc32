package connect

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/hearthdev/hearth/cli/kube"
)

// chosen is what these flags of kubectl say.
func chosen(t *testing.T, args ...string) *kube.Env {
	t.Helper()
	env, flags := kube.New("hearth", genericiooptions.NewTestIOStreamsDiscard()), pflag.NewFlagSet("test", pflag.ContinueOnError)
	env.Bind(flags)
	require.NoError(t, flags.Parse(args))
	return env
}

// kubectl's flags mean what they mean to kubectl.
func TestWhichClusterAndNamespace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(file, []byte(`apiVersion: v1
kind: Config
current-context: one
clusters: [{name: c, cluster: {server: "https://one.example"}}, {name: d, cluster: {server: "https://two.example"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: one, context: {cluster: c, user: u, namespace: team}}, {name: two, context: {cluster: d, user: u}}]
`), 0o600))
	t.Setenv("KUBECONFIG", file)
	for _, c := range []struct {
		where             *kube.Env
		server, namespace string
	}{
		{chosen(t), "https://one.example", "team"},
		{chosen(t, "--context", "two"), "https://two.example", "default"},
		{chosen(t, "--kubeconfig", file, "-n", "other"), "https://one.example", "other"},
	} {
		got, err := inKubernetes("agent/x", c.where, false, nil)
		require.NoError(t, err)
		assert.Equal(t, []string{c.server, c.namespace}, []string{got.Config.Host, got.Namespace})
	}
	_, err := inKubernetes("agent/x", chosen(t, "--context", "three"), false, nil)
	assert.ErrorContains(t, err, `kubeconfig: context "three" does not exist`)
}
