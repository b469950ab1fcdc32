package admission_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/test/apiserver"
)

// kubectlCreates is what the user's kubectl prints of a creation that is refused.
func kubectlCreates(t *testing.T, kubeconfig string, o client.Object) string {
	t.Helper()
	manifest, err := asUnstructured(t, o).MarshalJSON()
	require.NoError(t, err)
	kubectl := exec.CommandContext(t.Context(), filepath.Join(os.Getenv(apiserver.AssetsEnv), "kubectl"), "--kubeconfig", kubeconfig, "create", "-f", "-") //nolint:gosec // the test's own
	kubectl.Stdin = bytes.NewReader(manifest)
	out, err := kubectl.CombinedOutput()
	require.Error(t, err, "%s", out)
	return string(out)
}
