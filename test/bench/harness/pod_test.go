package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == inPod {
		fmt.Println(place(os.Args[2:]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// What is measured is alone, as in a Pod, and waits until it is told to begin; what its place has used is not its own.
func TestWhatIsMeasuredIsAloneAndBeginsWhenItIsTold(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", `echo $$ /proc/[0-9]*; read wait`)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	p, err := prepare(cmd)
	if errors.Is(err, unix.EPERM) && os.Getenv("HEARTH_REQUIRE_REAL") != "1" {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(p.end)
	name := func() string {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.pid()))
		require.NoError(t, err)
		return string(text)
	}
	assert.NotEqual(t, "sh\n", name(), "it has not begun")
	require.NoError(t, p.begin())
	said := make([]byte, len("1 /proc/1\n"))
	_, err = io.ReadFull(out, said)
	require.NoError(t, err)
	assert.Equal(t, "1 /proc/1\n", string(said))
	assert.Equal(t, "sh\n", name())
	s, err := p.now()
	require.NoError(t, err)
	assert.Positive(t, s.wall)
	assert.Positive(t, s.cpu)
	require.NoError(t, in.Close())
}
