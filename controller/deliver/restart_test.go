package deliver_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/delivery/client"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/harness"
)

// asked counts a harness's requests, by what they ask for.
type asked struct {
	mu    sync.Mutex
	calls map[string]int
	held  chan struct{} // where it is set, lists wait for it to be closed
}

func (a *asked) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.Method + " " + strings.TrimPrefix(r.URL.Path, wire.RunsPath)
		if r.URL.Path == wire.ChallengePath {
			name = "POST challenge"
		}
		if since := r.URL.Query().Get(wire.QuerySince); since != "" {
			name = map[bool]string{true: "list", false: "feed"}[since == "0"]
		}
		a.mu.Lock()
		a.calls[name]++
		held := a.held
		a.mu.Unlock()
		if name == "list" && held != nil {
			select {
			case <-held:
			case <-r.Context().Done():
			}
		}
		next.ServeHTTP(w, r)
	})
}

// since gives what was asked after the last time.
func (a *asked) since() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	calls := a.calls
	a.calls = map[string]int{}
	delete(calls, "feed") // held, and so often as something changes
	return calls
}

func (a *asked) hold(lists chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held = lists
}

func (a *asked) of(call string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.calls[call]
}

// Row 44: a controller that takes over asks each target once who it is and once what it holds, whatever that is, and looks once at each run
// there. Nothing is asked of single runs, not of one either that is looked at before the list is there, nothing is sent again, and each is
// recorded once.
func TestRow44_ARestartAsksEachTargetOnce(t *testing.T) {
	const targets, each = 3, 6
	w := newWorld(t)
	var pods []*target
	var counts []*asked
	for i := range targets {
		a := &asked{calls: map[string]int{}}
		counts = append(counts, a)
		pods = append(pods, w.standing(fmt.Sprintf("reviewer-%d", i), harness.Options{Concurrency: each, Wrap: a.wrap}))
	}
	first := w.controller()
	var runs []*hearthv1.AgentRun
	for i := range targets * each {
		runs = append(runs, w.deliver(fmt.Sprintf("run-%d", i), harness.HoldPrefix+"it"))
	}
	for _, run := range runs {
		w.reasonIs(run, hearthv1.ReasonRunning)
	}
	first.stop()
	lists := make(chan struct{})
	for _, a := range counts {
		a.since()
		a.hold(lists)
	}
	w.reattach = time.Hour     // each is looked at because of its target's list
	w.limits.Slack = time.Hour // a list that is held is not asked for again
	second := w.controller()
	for _, a := range counts {
		assert.True(t, w.eventually(func() bool { return a.of("list") == 1 }))
	}
	fresh := w.deliver("fresh", goal) // waits: every place is taken
	early := runs[0].Name
	require.NoError(t, w.kube.Patch(t.Context(), runs[0].DeepCopy(), kube.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"somebodys":"own"}}}`))))
	for _, name := range []string{fresh.Name, early} {
		assert.True(t, w.eventually(func() bool { return second.looked(name) > 0 }), "%s is looked at before the lists come", name)
	}
	close(lists)
	w.reasonIs(fresh, hearthv1.ReasonTargetBusy)
	for _, a := range counts {
		assert.Equal(t, map[string]int{"POST challenge": 1, "list": 1}, a.since())
	}
	for _, run := range runs {
		looks := map[bool]int{true: 2, false: 1}[run.Name == early]
		assert.True(t, w.eventually(func() bool { return second.looked(run.Name) >= looks }), run.Name)
		assert.Equal(t, looks, second.looked(run.Name), "looks at %s, which was in flight", run.Name)
		assert.Empty(t, second.written(run.Name), "nothing changed, so nothing is written")
		for _, x := range pods {
			x.harness.Runner.Release(string(run.UID))
		}
	}
	calls := map[string]int{}
	for _, run := range append(runs, fresh) {
		w.ended(run)
		marked := "POST /" + string(run.UID) + wire.RecordedSuffix
		assert.True(t, w.eventually(func() bool { return counts[0].of(marked)+counts[1].of(marked)+counts[2].of(marked) > 0 }))
	}
	for _, a := range counts {
		for call, n := range a.since() {
			calls[call] += n
		}
	}
	delete(calls, "POST challenge") // of each connection
	want := map[string]int{"POST ": 1}
	for _, run := range append(runs, fresh) {
		want["GET /"+string(run.UID)], want["POST /"+string(run.UID)+wire.RecordedSuffix] = 1, 1
	}
	assert.Equal(t, want, calls, "only the new one is sent; each result is fetched once and marked as recorded once")
	started := 0
	for _, x := range pods {
		for key, n := range x.harness.Runner.Started() {
			assert.Equal(t, 1, n, "%+v", key)
			started++
		}
	}
	assert.Equal(t, len(runs)+1, started)
}

// Row 44: a target that says who it is and then never what it holds keeps no run waiting: after a while each is looked at without it.
func TestRow44_ATargetThatNeverListsKeepsNoRunWaiting(t *testing.T) {
	w := newWorld(t)
	var mute atomic.Bool
	listing := make(chan struct{})
	begun := sync.OnceFunc(func() { close(listing) })
	w.standing("reviewer-0", harness.Options{Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if mute.Load() && r.URL.Query().Get(wire.QuerySince) == "0" {
				begun()
				<-r.Context().Done()
				return
			}
			next.ServeHTTP(rw, r)
		})
	}})
	first := w.controller()
	run := w.deliver("run", harness.HoldPrefix+"it")
	w.reasonIs(run, hearthv1.ReasonRunning)
	first.stop()
	mute.Store(true)
	stored, err := w.get(run)
	require.NoError(t, err)
	stored.Spec.Cancel = true
	require.NoError(t, w.kube.Update(t.Context(), stored))
	w.limits = client.Timeouts{Call: time.Hour, Slack: time.Hour} // the Link does not give the target up and wake its runs
	w.reattach = 500 * time.Millisecond
	second := w.controller()
	<-listing
	w.reasonIs(run, hearthv1.ReasonCancelling)
	second.wrote(t, run.Name, hearthv1.ReasonCancelling)
}
