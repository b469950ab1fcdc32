package version

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a release links in wins; without it there is a word still, and no revision that nobody recorded.
func TestTheLinkedReleaseWins(t *testing.T) {
	assert.NotEmpty(t, Of())
	t.Cleanup(func() { release, revision = "", "" })
	release, revision = "v9.8.7", "0123456789abcdef0123456789abcdef01234567"
	assert.Equal(t, "v9.8.7", Of())
	assert.Equal(t, "0123456789abcdef0123456789abcdef01234567", Revision())
	release = ""
	assert.NotContains(t, Of(), "v9.8.7")
}

// The names that the linker is given are those of the variables: a misspelt -X is no error to the linker.
func TestTheLinkerSetsThem(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	const set = "github.com/hearthdev/hearth/internal/version."
	out, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-ldflags",
		"-X "+set+"release=v9.8.7 -X "+set+"revision=abc", "-o", program, "./testdata/program").CombinedOutput()
	require.NoError(t, err, string(out))
	out, err = exec.CommandContext(t.Context(), program).Output()
	require.NoError(t, err)
	assert.Equal(t, "v9.8.7 abc\n", string(out))
	require.NoError(t, os.Remove(program))
}
