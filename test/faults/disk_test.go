//go:build faults

package faults_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/faults/rig"
)

// Row 19, on a disk that is really full: what comes is refused and promised nothing, what was promised ends and is recorded, and when there
// is room again, what waited has its one start.
func TestRow19_ADiskThatIsReallyFull(t *testing.T) {
	rig.Slow(t) // a harness whose disk is full asks for half a minute
	t.Parallel()
	disk := ""
	t.Cleanup(func() { // after the World has ended and read its transcripts
		if disk != "" {
			assert.NoError(t, syscall.Unmount(disk, syscall.MNT_DETACH))
			assert.NoError(t, os.RemoveAll(filepath.Dir(filepath.Dir(disk))))
		}
	})
	w := rig.New(t, rig.Options{})
	w.Controller()
	w.Agent("reviewer", room(1, 1))
	pod := w.Ready("reviewer", 1)[0]
	pod.StayDown()
	w.Eventually("it is down", func() bool { return pod.PID() == 0 })
	pod.LoseJournal()
	require.NoError(t, syscall.Mount("tmpfs", pod.Data(), "tmpfs", 0, "size=16m"), "root is needed")
	disk = pod.Data()
	pod.Up()
	works(t, w, "reviewer")

	goal, open := held(t)
	promised := w.Run("reviewer", goal)
	begun(t, w, promised)
	rubbish := filepath.Join(disk, "rubbish")
	fill(t, rubbish)
	refused := w.Run("reviewer", "say: at last")
	got := w.Await(refused, hearthv1.ReasonTargetBusy)
	assert.Equal(t, hearthv1.PhasePending, got.Status.Phase)
	assert.Zero(t, got.Status.Delivery.Losses)
	open()
	once(t, w, w.Ended(promised))
	assert.Empty(t, w.EffectsOf(refused))
	require.NoError(t, os.Remove(rubbish))
	got = w.Ended(refused)
	assert.Equal(t, hearthv1.PhaseSucceeded, got.Status.Phase)
	assert.Len(t, w.EffectsOf(refused), 1)
}

// fill writes until the disk is full.
func fill(t *testing.T, name string) {
	t.Helper()
	file, err := os.Create(name)
	require.NoError(t, err)
	block := make([]byte, 4096)
	for err == nil {
		_, err = file.Write(block)
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, file.Close())
}
