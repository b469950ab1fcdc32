package apiserver

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Kubeconfig writes a configuration as a file, and gives its path.
func Kubeconfig(t testing.TB, c *rest.Config) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {Server: c.Host, CertificateAuthorityData: c.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": {ClientCertificateData: c.CertData, ClientKeyData: c.KeyData,
			Impersonate: c.Impersonate.UserName, ImpersonateGroups: c.Impersonate.Groups}},
		Contexts: map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}}, CurrentContext: "x",
	}, file))
	return file
}

// Kubectl runs the administrator's kubectl in the repository's root, where the documentation's commands are run, and gives what
// it printed. A command that fails fails the test.
func (s *Server) Kubectl(t testing.TB, args ...string) string {
	t.Helper()
	root, err := Root()
	require.NoError(t, err)
	kubectl := exec.CommandContext(t.Context(), filepath.Join(os.Getenv(AssetsEnv), "kubectl"), append([]string{"--kubeconfig", Kubeconfig(t, s.Admin(t))}, args...)...)
	kubectl.Dir = root
	out, err := kubectl.CombinedOutput()
	require.NoError(t, err, "kubectl %v: %s", args, out)
	return string(out)
}
