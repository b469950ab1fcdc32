package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/hearthdev/hearth/cli/kube"
)

// R55: a command line that is wrong is found before anything is asked or done, and ends with the code that docs/cli.md says.
func TestAWrongCommandLineEndsWithItsCode(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	for line, want := range map[string]string{
		"wait x --timeout -1s":            "--timeout: expected a duration",
		"run x --wait --timeout -1s":      "--timeout: expected a duration",
		"cancel x --timeout 1s":           "--timeout goes with --wait",
		"delete x --timeout -1s":          "--timeout: expected a duration",
		"attach x --retry-for -1s":        "--retry-for: expected a duration",
		"logs x --retry-for -1s":          "--retry-for: expected a duration",
		"connect agent/x --retry-for=-1s": "--retry-for: expected a duration",
		"connect agent/x --key-file k":    "--key-file: goes with a URL",
		"connect ftp://x/acp":             "expected a URL with ws",
		"connect x":                       "expected agent/NAME, run/NAME or a URL",
		"connect":                         "expected one TARGET",
		"runs --phase Done":               "--phase: expected Pending, Running, Succeeded, Failed",
	} {
		t.Run(line, func(t *testing.T) {
			streams, _, _, stderr := genericiooptions.NewTestIOStreams()
			assert.Equal(t, kube.ExitUsage, Run(t.Context(), kube.New("hearth", streams), strings.Fields(line)))
			assert.Contains(t, stderr.String(), want)
		})
	}
}
