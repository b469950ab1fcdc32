package delivery

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// Row 5: the harness has the result, and the controller comes back after the deadline. Its Link is not verified yet when the run
// is looked at for the first time, and may be slow to be: the record is the result, not a guess.
func TestAControllerBackAfterTheDeadlineRecordsTheRealResult(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, map[string]int{})
		w.settling = true // nobody else interferes
		c := w.ctrls[0]
		for len(w.api) == 0 {
			w.create()
		}
		name := names(w.api)[0]
		w.sync(c)
		for _, h := range w.pods {
			w.challenge(c, h)
		}
		w.assign(c)
		w.sync(c)
		w.reconcile(c, name)
		require.Len(t, w.net, 1, "sent")
		h := w.net[0].pod
		w.deliver(0)
		w.start(h)
		w.finish(h)

		w.now = w.api[name].run.deadline().Add(time.Hour)
		c = w.newController()
		slow := time.Duration(rapid.IntRange(0, int(LastLookPatience/time.Second)-2).Draw(t, "seconds until the challenge is answered"))
		for range slow {
			w.reconcile(c, name)
			w.now = w.now.Add(time.Second)
		}
		w.reconcile(c, name)
		w.challenge(c, h)
		w.now = w.now.Add(time.Second)
		w.reconcile(c, name)
		for len(w.net) > 0 {
			w.deliver(0)
		}
		w.reconcile(c, name)
		require.True(t, w.api[name].run.Terminal)
		require.Equal(t, Reason(wire.ReasonCompleted), w.api[name].run.Reason)
	})
}
