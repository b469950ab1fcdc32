package procs

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Work shows in the processor time of who does it, and of nobody else.
func TestWhatAProcessHasUsedIsItsOwn(t *testing.T) {
	idle := exec.CommandContext(t.Context(), "sleep", "60")
	require.NoError(t, idle.Start())
	t.Cleanup(func() {
		_ = idle.Process.Kill()
		_ = idle.Wait()
	})
	before, err := CPU(os.Getpid())
	require.NoError(t, err)
	waited, err := CPU(idle.Process.Pid)
	require.NoError(t, err)
	after := before
	for after < before+50*time.Millisecond {
		after, err = CPU(os.Getpid())
		require.NoError(t, err)
	}
	since, err := CPU(idle.Process.Pid)
	require.NoError(t, err)
	assert.Less(t, since-waited, 25*time.Millisecond, "it slept all the time")

	resident, err := Resident(os.Getpid())
	require.NoError(t, err)
	assert.Greater(t, resident, int64(1<<20))
}

func TestAProcessThatIsNotThereHasUsedNothing(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "true")
	require.NoError(t, cmd.Run())
	_, err := CPU(cmd.Process.Pid)
	require.Error(t, err)
	_, err = Resident(cmd.Process.Pid)
	require.Error(t, err)
}
