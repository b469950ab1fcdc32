package client

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/delivery"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/harness"
)

func TestAShortRunIsDeliveredLookedAtAndForgottenOnceRecorded(t *testing.T) {
	h := harness.Start(t, harness.Options{})
	told := &changes{}
	cfg := testConfig(t, h.Address)
	cfg.Changed = told.add
	l := verifiedLink(t, cfg)
	assert.Equal(t, wire.Capacity{Concurrency: 1, Queue: 1}, l.Status().Capacity)
	assert.Equal(t, wire.AgentReady, l.Status().Agent.State)

	require.NoError(t, l.Send(request(l, "a", 1, secretGoal), 0))
	eventually(t, "finished on the feed", func() bool { _, s := seen(l, "a", 1); return s == wire.StateFinished })
	a := idle(t, l, "a", 1)
	assert.Equal(t, delivery.Sent{Count: 1, Outcome: delivery.SendAccepted}, a.Sent)
	assert.Equal(t, l.Status().Journal, a.SeenJournal)
	assert.False(t, a.SeenSince.IsZero())

	require.NoError(t, l.Look(runRef("a"), 1))
	a = idle(t, l, "a", 1)
	require.NotNil(t, a.Seen.Envelope)
	assert.Equal(t, harness.Output(secretGoal), a.Seen.Envelope.Output.Value)
	assert.Positive(t, told.runs()["a"], "whoever waits for the run was told")

	require.NoError(t, l.Recorded(runRef("a"), 1))
	eventually(t, "forgotten", func() bool { return len(l.List()) == 0 })
	require.NoError(t, l.Look(runRef("a"), 1))
	idle(t, l, "a", 1)
	assert.Equal(t, map[harness.Key]int{{RunUID: "uid-a", Attempt: 1}: 1}, h.Runner.Started())
}

// SPEC.md, Lifecycle: an attempt may be sent again; it has one effect (row 3).
func TestTheSameAttemptSentAgainHasOneEffect(t *testing.T) {
	h := harness.Start(t, harness.Options{})
	l := verifiedLink(t, testConfig(t, h.Address))
	for begun := range 5 {
		require.NoError(t, l.Send(request(l, "a", 1, harness.HoldPrefix+"it"), begun))
		idle(t, l, "a", 1)
	}
	a := idle(t, l, "a", 1)
	assert.Equal(t, 5, a.Sent.Count)
	assert.Equal(t, delivery.SendAccepted, a.Sent.Outcome)
	eventually(t, "started", func() bool { return len(h.Runner.Started()) == 1 })
	require.NoError(t, l.Cancel(runRef("a"), 1, Trace{}))
	eventually(t, "finished", func() bool { _, s := seen(l, "a", 1); return s == wire.StateFinished })
	assert.Equal(t, map[harness.Key]int{{RunUID: "uid-a", Attempt: 1}: 1}, h.Runner.Started())
}

// SPEC.md, Lifecycle, Send: what each verified refusal proves, and how long the target is left alone.
func TestRefusalsAreTold(t *testing.T) {
	h := harness.Start(t, harness.Options{})
	l := verifiedLink(t, testConfig(t, h.Address))
	for _, name := range []string{"a", "b"} {
		require.NoError(t, l.Send(request(l, name, 1, harness.HoldPrefix+name), 99))
		idle(t, l, name, 1)
	}
	before := time.Now()
	require.NoError(t, l.Send(request(l, "c", 1, secretGoal), 99))
	a := idle(t, l, "c", 1)
	assert.Equal(t, delivery.SendNotTaken, a.Sent.Outcome)
	assert.Equal(t, wire.CodeBusy, a.Sent.Code)
	assert.GreaterOrEqual(t, a.Sent.RetryAt.Sub(before), delivery.MinBackoff, "Retry-After is honoured")
	assert.True(t, a.NotBefore.IsZero(), "it is about deliveries: the void that lets the run go elsewhere does not wait for it (rows 19, 28)")

	bad := request(l, "d", 1, secretGoal)
	bad.Limits = &wire.Limits{ActiveSeconds: new(int64)}
	require.NoError(t, l.Send(bad, 0))
	a = idle(t, l, "d", 1)
	assert.Equal(t, delivery.SendRejected, a.Sent.Outcome)
	assert.Contains(t, a.Sent.Message, "activeSeconds")

	other := request(l, "a", 1, "another goal")
	require.NoError(t, l.Send(other, 99))
	a = idle(t, l, "a", 1)
	assert.Equal(t, delivery.SendUnknown, a.Sent.Outcome, "row 12")
	assert.Equal(t, wire.CodeDigestMismatch, a.Sent.Code)

	require.NoError(t, l.Void(runRef("b"), 1))
	a = idle(t, l, "b", 1)
	assert.Equal(t, wire.StateVoided, a.Seen.State, "b had not started")
	require.NoError(t, l.Void(runRef("a"), 1))
	a = idle(t, l, "a", 1)
	assert.Equal(t, wire.StateRunning, a.Seen.State, "a had started and goes on")
}

func TestLookTellsWhatTheHarnessDoesNotKnow(t *testing.T) {
	h := harness.Start(t, harness.Options{})
	l := verifiedLink(t, testConfig(t, h.Address))
	require.NoError(t, l.Look(runRef("a"), 1))
	a := idle(t, l, "a", 1)
	assert.True(t, a.Absent)
	assert.Equal(t, l.Status().Journal, a.SeenJournal)
	require.NoError(t, l.Send(request(l, "a", 1, secretGoal), 99))
	a, _ = l.Snapshot(Key{RunUID: "uid-a", Attempt: 1})
	assert.False(t, a.Absent, "a send that has begun makes an earlier absence worthless")

	require.NoError(t, l.Void(runRef("b"), 7))
	a = idle(t, l, "b", 7)
	assert.Equal(t, wire.StateVoided, a.Seen.State)
	eventually(t, "on the feed too", func() bool { return len(l.List()) == 2 })
	a, _ = l.Snapshot(Key{RunUID: "uid-b", Attempt: 7})
	assert.Equal(t, runRef("b"), a.Seen.Run, "the harness does not know the name of what it voided unseen, we do")
}

// Rows 7 and 8: two controllers at once. That the target did not have an attempt proves nothing once somebody else has sent it: neither
// what was told before, nor an answer that is still on its way.
func TestAnAbsenceIsOldOnceSomebodyElseHasSentTheAttempt(t *testing.T) {
	asked, goOn := make(chan struct{}), make(chan struct{})
	var late atomic.Bool
	h := harness.Start(t, harness.Options{Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet || r.URL.Path == wire.RunsPath || !late.CompareAndSwap(true, false) {
				next.ServeHTTP(w, r)
				return
			}
			answer := httptest.NewRecorder()
			next.ServeHTTP(answer, r)
			asked <- struct{}{}
			<-goOn
			maps.Copy(w.Header(), answer.Header())
			w.WriteHeader(answer.Code)
			_, _ = w.Write(answer.Body.Bytes())
		})
	}})
	l, other := verifiedLink(t, testConfig(t, h.Address)), verifiedLink(t, testConfig(t, h.Address))
	key := Key{RunUID: "uid-a", Attempt: 1}
	require.NoError(t, l.Look(runRef("a"), 1))
	require.True(t, idle(t, l, "a", 1).Absent)
	l.Doubt(key)
	a, _ := l.Snapshot(key)
	assert.False(t, a.Absent, "told before")
	lookLate := func(meanwhile func()) Attempt {
		late.Store(true)
		require.NoError(t, l.Look(runRef("a"), 1))
		<-asked
		meanwhile()
		goOn <- struct{}{}
		return idle(t, l, "a", 1)
	}
	assert.True(t, lookLate(func() {}).Absent)
	assert.False(t, lookLate(func() { l.Doubt(key) }).Absent, "told late")
	a = lookLate(func() {
		require.NoError(t, other.Send(request(other, "a", 1, harness.HoldPrefix+"it"), 0))
		eventually(t, "told by the feed", func() bool { _, s := seen(l, "a", 1); return s == wire.StateRunning })
	})
	assert.False(t, a.Absent, "overtaken by the feed")
	assert.NotNil(t, a.Seen)
}

// A book that made room has lost a send of which the caller remembers that it may have left: what is sent now is not the first.
func TestASendThatTheBookHasLostStillCounts(t *testing.T) {
	l, err := New(testConfig(t, "127.0.0.1:1")) // not started: nothing leaves
	require.NoError(t, err)
	defer l.Close()
	require.NoError(t, l.Send(request(l, "a", 1, secretGoal), 1))
	assert.Equal(t, 2, idle(t, l, "a", 1).Sent.Count)
}

// Row 10: the reply to the POST is lost. It may have been accepted, and the same attempt sent again says so.
func TestADroppedReplyIsUnknownUntilTheSameAttemptWasSentAgain(t *testing.T) {
	var drop, dropped atomic.Bool
	h := harness.Start(t, harness.Options{Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path != wire.RunsPath || !drop.Load():
			case r.Method == http.MethodPost:
				next.ServeHTTP(discard{}, r)
				dropped.Store(true)
				panic(http.ErrAbortHandler)
			case dropped.Load(): // not before: without its list the Link would send nothing
				panic(http.ErrAbortHandler)
			}
			next.ServeHTTP(w, r)
		})
	}})
	l := verifiedLink(t, testConfig(t, h.Address))
	r := request(l, "a", 1, harness.HoldPrefix+"it")
	drop.Store(true)
	require.NoError(t, l.Send(r, 0))
	a := idle(t, l, "a", 1)
	assert.Equal(t, delivery.Sent{Count: 1, Outcome: delivery.SendUnknown, Message: a.Sent.Message}, a.Sent)
	drop.Store(false)
	eventually(t, "verified again", func() bool { _, s := seen(l, "a", 1); return l.Status().State == StateVerified && s != "" })
	require.NoError(t, l.Send(r, 99))
	a = idle(t, l, "a", 1)
	assert.Equal(t, delivery.SendAccepted, a.Sent.Outcome)
	assert.Equal(t, map[harness.Key]int{{RunUID: "uid-a", Attempt: 1}: 1}, h.Runner.Started())
}

type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}

// Row 55: after an accept whose reply was lost, a 503 is told as what it is. The count says that an earlier copy may be there.
func TestASecondSendThatIsRefusedKeepsItsCount(t *testing.T) {
	var refuse atomic.Bool
	h := harness.Start(t, harness.Options{Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && r.URL.Path == wire.RunsPath && !refuse.Load() {
				panic(http.ErrAbortHandler) // lost on its way, for all that the caller can tell
			}
			next.ServeHTTP(w, r)
		})
	}})
	l := verifiedLink(t, testConfig(t, h.Address))
	require.NoError(t, l.Send(request(l, "a", 1, secretGoal), 0))
	assert.Equal(t, delivery.SendUnknown, idle(t, l, "a", 1).Sent.Outcome)
	refuse.Store(true)
	h.Runner.Set(wire.AgentDown)
	eventually(t, "verified", func() bool { return l.Status().State == StateVerified })
	require.NoError(t, l.Send(request(l, "a", 1, secretGoal), 99))
	a := idle(t, l, "a", 1)
	assert.Equal(t, 2, a.Sent.Count)
	assert.Equal(t, wire.CodeAgentUnavailable, a.Sent.Code)
}

// Rows 15 to 18: a harness that restarts is challenged again and its attempts are listed from the beginning; a lost journal shows.
func TestARestartIsANewBootAndALostJournalShows(t *testing.T) {
	h := harness.Start(t, harness.Options{})
	l := verifiedLink(t, testConfig(t, h.Address))
	first := l.Status()
	require.NoError(t, l.Send(request(l, "a", 1, harness.HoldPrefix+"it"), 99))
	eventually(t, "running", func() bool { _, s := seen(l, "a", 1); return s == wire.StateRunning })

	h.Stop()
	eventually(t, "unreachable", func() bool { return l.Status().State == StateUnreachable })
	require.NoError(t, l.Send(request(l, "b", 1, secretGoal), 99))
	assert.Equal(t, delivery.SendNotTaken, idle(t, l, "b", 1).Sent.Outcome, "nobody there: no byte left")
	h.Boot()
	eventually(t, "interrupted", func() bool { _, s := seen(l, "a", 1); return s == wire.StateFinished })
	second := l.Status()
	assert.NotEqual(t, first.Boot, second.Boot)
	assert.Equal(t, first.Journal, second.Journal)
	b, _ := l.Snapshot(Key{RunUID: "uid-b", Attempt: 1})
	assert.True(t, b.NotBefore.IsZero(), "a target that is back is not waited for any longer")

	h.Stop()
	h.LoseJournal()
	h.Boot()
	eventually(t, "another journal", func() bool { return l.Status().Journal != first.Journal })
	require.NoError(t, l.Look(runRef("a"), 1))
	a := idle(t, l, "a", 1)
	assert.True(t, a.Absent)
	assert.Equal(t, l.Status().Journal, a.SeenJournal, "absent, but from another journal: it proves nothing about the attempt")
}

func TestDrainingAndCapacityRideOnTheFeed(t *testing.T) {
	h := harness.Start(t, harness.Options{Concurrency: 2})
	l := verifiedLink(t, testConfig(t, h.Address))
	h.Runner.Set(wire.AgentDown)
	eventually(t, "down", func() bool { return l.Status().Agent.State == wire.AgentDown })
	h.Runner.Set(wire.AgentReady)
	require.NoError(t, l.Send(request(l, "a", 1, harness.HoldPrefix+"it"), 99))
	eventually(t, "one running", func() bool { return l.Status().Capacity.Running == 1 })
	drained := make(chan struct{})
	go func() { defer close(drained); h.Drain(context.Background(), time.Minute) }() //nolint:usetesting // ended below
	eventually(t, "draining", func() bool { return l.Status().Agent.State == wire.AgentDraining })
	h.Runner.Release("uid-a")
	eventually(t, "result handed over", func() bool { _, s := seen(l, "a", 1); return s == wire.StateFinished })
	require.NoError(t, l.Recorded(runRef("a"), 1))
	<-drained
}

// A Pod's sandbox may be made again with another IP: the Link follows and keeps what it knows.
func TestALinkMovesWithItsPod(t *testing.T) {
	h := harness.Start(t, harness.Options{})
	links := NewLinks()
	t.Cleanup(links.Close)
	told := &changes{}
	cfg := testConfig(t, "127.0.0.1:1")
	cfg.Backoff, cfg.Changed = func(int) time.Duration { return time.Hour }, told.add
	l, err := links.Ensure(cfg)
	require.NoError(t, err)
	eventually(t, "unreachable", func() bool { return l.Status().State == StateUnreachable })
	cfg.Address = h.Address
	same, err := links.Ensure(cfg)
	require.NoError(t, err)
	require.Same(t, l, same)
	eventually(t, "listed", func() bool { return l.Status().Listed && told.states() >= 3 })
	assert.Equal(t, 3, told.states(), "unreachable, there again, listed")
	assert.Same(t, l, links.Get("pod-1"))
	links.Remove("pod-1")
	assert.Nil(t, links.Get("pod-1"))
	require.Error(t, l.Send(request(l, "a", 1, secretGoal), 99), "a closed Link sends nothing")
	links.Close()
	_, err = links.Ensure(cfg)
	require.Error(t, err)
}

func TestABadConfigIsRefusedWithWhatWasExpected(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"no target":   {func(c *Config) { c.Target.PodUID = "" }, "target"},
		"no clock":    {func(c *Config) { c.Now = nil }, "clock"},
		"a host name": {func(c *Config) { c.Address = "reviewer-1:4100" }, "IP:port"},
		"no port":     {func(c *Config) { c.Address = "127.0.0.1" }, "IP:port"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig(t, "127.0.0.1:4100")
			c.change(&cfg)
			_, err := New(cfg)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// Bounded: what waits for one target is limited, and the caller is told.
func TestTheQueueOfATargetIsBounded(t *testing.T) {
	block := make(chan struct{})
	h := harness.Start(t, harness.Options{Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/uid-") {
				<-block
			}
			next.ServeHTTP(w, r)
		})
	}})
	l := verifiedLink(t, testConfig(t, h.Address))
	var err error
	for i := int64(1); i <= maxQueued+maxWorkers+1 && err == nil; i++ {
		err = l.Look(runRef("a"), i)
	}
	require.ErrorIs(t, err, ErrFull)
	l.mu.Lock()
	assert.LessOrEqual(t, l.workers, maxWorkers)
	l.mu.Unlock()
	close(block)
}

// A look that began before a send says nothing about after it: its "unknown" must not undo the acceptance.
func TestAnUnknownFromBeforeTheSendIsNoAbsence(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	h := harness.Start(t, harness.Options{Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/uid-a") {
				next.ServeHTTP(w, r)
				return
			}
			early := httptest.NewRecorder()
			next.ServeHTTP(early, r)
			close(asked)
			<-release
			maps.Copy(w.Header(), early.Header())
			w.WriteHeader(early.Code)
			_, _ = w.Write(early.Body.Bytes())
		})
	}})
	l := verifiedLink(t, testConfig(t, h.Address))
	require.NoError(t, l.Look(runRef("a"), 1))
	<-asked
	require.NoError(t, l.Send(request(l, "a", 1, harness.HoldPrefix+"it"), 0))
	eventually(t, "accepted", func() bool { _, s := seen(l, "a", 1); return s != "" })
	close(release)
	a := idle(t, l, "a", 1)
	assert.False(t, a.Absent)
	assert.NotNil(t, a.Seen)
}
