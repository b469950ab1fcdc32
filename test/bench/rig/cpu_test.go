package rig

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestANameMayHaveAnythingInIt(t *testing.T) {
	s, err := parseStat([]byte("42 (a (b) c) S 7 42 42 0 -1 4194304 1 2 3 4 150 25 9 9 20 0 1 0 100 0 0\n"))
	require.NoError(t, err)
	assert.Equal(t, stat{name: "a (b) c", parent: 7}, s)
}

func TestWhatIsNoProcessStateIsSaid(t *testing.T) {
	for text, want := range map[string]string{
		"":         "expected a name in parentheses",
		")(":       "expected a name in parentheses",
		"42 (a) S": "expected 2 fields behind the name, got 1",
		"42 (a) S x 42 42 0 -1 4194304 1 2 3 4 150 25": "field 1 behind the name",
	} {
		_, err := parseStat([]byte(text))
		assert.ErrorContains(t, err, want, text)
	}
}

func TestAChildIsFoundByItsName(t *testing.T) {
	_, err := childrenNamed("sleep")
	require.ErrorContains(t, err, "no child process is named sleep")
	start := func() *exec.Cmd {
		c := exec.CommandContext(t.Context(), "sleep", "60")
		require.NoError(t, c.Start())
		t.Cleanup(func() {
			_ = c.Process.Kill()
			_ = c.Wait()
		})
		return c
	}
	child := start()
	found, err := childrenNamed("sleep")
	require.NoError(t, err)
	assert.Equal(t, child.Process.Pid, found["sleep"])
	start()
	_, err = childrenNamed("sleep")
	assert.ErrorContains(t, err, "two child processes are named sleep")
}

func TestOfALogWhatIsUnusualIsShown(t *testing.T) {
	assert.Equal(t, "a\nb\n\n", unusual("a\n{\"level\":\"INFO\"}\nb\n"))
	assert.Equal(t, "x\n", unusual(strings.Repeat("x\n", 3) + "x")[6:])
	assert.Equal(t, tailLines, strings.Count(unusual(strings.Repeat("x\n", 100)), "\n"))
}
