//go:build faults

package faults_test

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/hearthdev/hearth/internal/crashpoint"
	"github.com/hearthdev/hearth/test/faults/rig"
)

// A panic in a reconcile, in a write of one, in a link's worker: it is counted, the same attempt goes on, and the process lives.
func TestRow42_APanicInTheControllerIsSurvived(t *testing.T) {
	for point, metric := range map[crashpoint.Point]string{
		crashpoint.BeforeReserve: "controller_runtime_reconcile_panics_total",
		crashpoint.AfterReserve:  "controller_runtime_reconcile_panics_total",
		crashpoint.AfterAccepted: "hearth_link_panics_total",
		crashpoint.AfterResult:   "controller_runtime_reconcile_panics_total",
		crashpoint.AfterTerminal: "controller_runtime_reconcile_panics_total",
		crashpoint.AfterRecorded: "hearth_link_panics_total",
	} {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			w := rig.New(t, rig.Options{})
			c := w.Controller()
			w.Agent("reviewer")
			w.Ready("reviewer", 1)
			hold := w.Hold(point)
			run := w.Run("reviewer", "say: done")
			hold.Wait().Panic()
			got := w.Await(run, "Succeeded")
			assert.Equal(t, int64(1), got.Status.Delivery.Attempt)
			assert.Len(t, w.EffectsOf(run), 1)
			w.Await(w.Run("reviewer", "say: next"), "Succeeded")
			assert.True(t, c.Alive())
			assert.Equal(t, 1, total(c.Metrics(), metric))
		})
	}
}

// In the harness: in an answer, and before and after a durable write. Its process and its agent live, and the attempt is neither lost nor run twice.
func TestRow42_APanicInTheHarnessIsSurvived(t *testing.T) {
	for _, point := range []crashpoint.Point{
		crashpoint.BeforeReply("deliver"), crashpoint.AfterReply("deliver"), crashpoint.BeforeReply("changes"),
		crashpoint.BeforeWrite("accept"), crashpoint.AfterWrite("accept"), crashpoint.BeforeWrite("finish"), crashpoint.AfterWrite("finish"), crashpoint.BeforeReply("recorded"),
	} {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			w := rig.New(t, rig.Options{})
			w.Controller()
			w.Agent("reviewer")
			pod := w.Ready("reviewer", 1)[0]
			hold := pod.Hold(point)
			run := w.Run("reviewer", "say: done")
			hold.Wait().Panic()
			w.Await(run, "Succeeded")
			assert.Len(t, w.EffectsOf(run), 1)
			w.Await(w.Run("reviewer", "say: next"), "Succeeded")
			assert.Zero(t, pod.Restarts())
		})
	}
}

// total adds a metric up over its labels.
func total(text, name string) (sum int) {
	for _, line := range regexp.MustCompile(`(?m)^`+name+`(?:\{[^}]*\})? (\S+)$`).FindAllStringSubmatch(text, -1) {
		n, err := strconv.ParseFloat(line[1], 64)
		if err == nil {
			sum += int(n)
		}
	}
	return sum
}
