// Package hearth holds no code, only the rules of the layout.
package hearth

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/hearthdev/hearth"

// Who may link what, along whole chains of imports. The linter checks direct imports; this catches what comes in through a third.
func TestImportRules(t *testing.T) {
	ours := func(paths ...string) []string {
		for i, p := range paths {
			paths[i] = module + "/" + p
		}
		return paths
	}
	kubernetes := []string{"k8s.io/", "sigs.k8s.io/"}
	acp := []string{"github.com/coder/acp-go-sdk"}
	for pattern, banned := range map[string][][]string{
		"./pkg/delivery/v1alpha1": {kubernetes, {"os/exec"}, {module + "/"}},
		"./challenge":             {kubernetes, {"net"}, {module + "/"}},
		"./internal/...":          {kubernetes, acp, {module + "/"}},
		"./api/...":               {{"sigs.k8s.io/controller-runtime"}, {module + "/"}},
		"./delivery":              {kubernetes, ours("delivery/", "challenge", "api/"), {"os/exec"}},
		"./delivery/client/...":   {kubernetes, acp, ours("delivery/server", "delivery/journal", "runtime", "api/", "controller")},
		"./delivery/server/...":   {kubernetes, acp, ours("delivery/client", "runtime", "api/", "controller")},
		"./delivery/journal/...":  {kubernetes, ours("challenge", "delivery/client", "delivery/server", "runtime", "api/")},
		"./delivery/kontext/...":  {kubernetes, acp, ours("delivery/client", "runtime", "api/", "controller")},
		"./runtime/...":           {kubernetes, ours("delivery", "challenge", "api/", "controller")},
		"./runtime/transcript":    {acp, ours("runtime")},
		"./cmd/harness":           {kubernetes, ours("api/", "controller", "delivery/client")},
		"./cli/...":               {{"github.com/go-chi/chi"}, ours("controller", "delivery", "runtime")},
		"./cli/attach/view":       {kubernetes, {"net/http"}},
		"./cmd/hearth":            {{"github.com/go-chi/chi"}, ours("controller", "delivery", "runtime")},
		"./examples/...":          {acp, ours("controller", "delivery", "runtime", "challenge", "pkg", "internal", "cli", "test")},
		"./controller/...":        {acp, {"github.com/go-chi/chi"}, ours("runtime", "delivery/server", "delivery/kontext", "delivery/journal")},
		"./cmd/controller":        {acp, {"github.com/go-chi/chi"}, ours("runtime", "delivery/server", "delivery/kontext", "delivery/journal")},
	} {
		t.Run(pattern, func(t *testing.T) {
			for from, to := range dependencies(t, pattern) {
				for _, set := range banned {
					for _, prefix := range set {
						for _, dep := range to {
							assert.False(t, within(dep, prefix) && !samePattern(pattern, dep), "%s links %s", from, dep)
						}
					}
				}
			}
		})
	}
}

// A file over 500 lines has split into two concepts; main stays wiring.
func TestFilesStayReadable(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "git", "ls-files", "*.go").Output()
	require.NoError(t, err)
	for _, path := range strings.Fields(string(out)) {
		if strings.Contains(filepath.Base(path), "zz_generated") {
			continue
		}
		content, err := os.ReadFile(path) //nolint:gosec // a file of this repository
		if os.IsNotExist(err) {
			continue // deleted, not committed yet
		}
		require.NoError(t, err)
		lines, limit := bytes.Count(content, []byte("\n")), 500
		if strings.HasPrefix(path, "cmd/") && filepath.Base(path) == "main.go" {
			limit = 60
		}
		assert.LessOrEqual(t, lines, limit, path)
	}
}

// dependencies lists, for each package that the pattern matches, all it links.
func dependencies(t *testing.T, pattern string) map[string][]string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, err := exec.CommandContext(ctx, "go", "list", "-f", `{{.ImportPath}} {{join .Deps " "}}`, pattern).Output() //nolint:gosec // fixed patterns
	require.NoError(t, err, pattern)
	found := map[string][]string{}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		found[words[0]] = words[1:]
	}
	require.NoError(t, lines.Err())
	require.NotEmpty(t, found, "the pattern matches no package")
	return found
}

// within tells whether a package is, or lies below, the prefix; a prefix that ends in a slash is taken as it is.
func within(pkg, prefix string) bool {
	return pkg == prefix || strings.HasPrefix(pkg, strings.TrimSuffix(prefix, "/")+"/")
}

// samePattern tells whether a package belongs to the pattern itself: a tree may import within itself.
func samePattern(pattern, pkg string) bool {
	root := module + "/" + strings.TrimPrefix(strings.TrimSuffix(pattern, "/..."), "./")
	return pkg == root || strings.HasSuffix(pattern, "/...") && strings.HasPrefix(pkg, root+"/")
}
