package delivery

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// The scene: created at noon, reserved a minute later, an hour to start, half an hour to run.
var (
	noon     = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	reserved = noon.Add(time.Minute)
	later    = reserved.Add(10 * time.Second)
	startEnd = noon.Add(time.Hour)
	deadline = startEnd.Add(30*time.Minute + DeadlineGrace)
)

func scene(t testing.TB) (Run, Observed) {
	t.Helper()
	run := Run{UID: "run-1", Namespace: "team", Name: "review-x", Generation: 3, Created: noon, Admitted: true, Starting: time.Hour,
		Active: 30 * time.Minute, Phase: PhasePending, Reason: ReasonReserved}
	run.Reservation = Reservation{Attempt: 1, PodName: "reviewer-1", PodUID: "pod-1", Journal: testJournal, Generation: 3, By: "me", At: reserved}.Seal(run.UID, testGoal)
	obs := Observed{Self: "me", Mine: true, Since: reserved, Link: LinkVerified, Journal: testJournal, LastContact: reserved}
	return run, obs
}

// told is the attempt as the harness would tell it in that state.
func told(state wire.State, change ...func(*wire.Attempt)) *wire.Attempt {
	at := reserved.Add(time.Second)
	a := &wire.Attempt{Run: wire.RunRef{Namespace: "team", Name: "review-x", UID: "run-1"}, Attempt: 1, Digest: wire.Digest("run-1", 1, testGoal), State: state, AcceptedAt: &at}
	if state == wire.StateRunning || state == wire.StateFinished {
		a.StartedAt = &at
	}
	for _, c := range change {
		c(a)
	}
	return a
}

func envelope(outcome wire.Outcome, reason wire.Reason) func(*wire.Attempt) {
	return func(a *wire.Attempt) {
		a.Envelope = &wire.Envelope{Outcome: outcome, Reason: reason, Message: "m",
			Timing: wire.Timing{StartedAt: reserved, FinishedAt: later, DurationMillis: 9999}}
	}
}

func stopping(a *wire.Attempt) { a.CancelRequested = true }
func dropped(a *wire.Attempt)  { a.Recorded = true }
func otherGoal(a *wire.Attempt) {
	a.Digest = wire.Digest("run-1", 1, "another goal")
}

func (o *Observed) sees(a *wire.Attempt) {
	o.Mine, o.Sent = true, Sent{Count: 1, Outcome: SendAccepted}
	o.Seen, o.SeenJournal, o.SeenSince = a, testJournal, reserved
}

func (o *Observed) found() { o.Self, o.Mine = "another", false } // by a controller that did not reserve it

// lost: asked for it, the harness knows nothing of it, under another journal.
func (o *Observed) lost() { o.Absent, o.SeenJournal, o.Journal = true, "j2", "j2" }

func (o *Observed) absent() { o.Absent, o.SeenJournal = true, testJournal }

func (o *Observed) refused(count int, code wire.Code) {
	o.Sent = Sent{Count: count, Outcome: SendNotTaken, Code: code, Message: "because"}
}

type decideCase struct {
	set    func(*Run, *Observed)
	at     time.Time // later unless set
	want   Action
	reason Reason // of Succeeded, when a status is wanted; "" means that none is
}

func check(t *testing.T, cases map[string]decideCase) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			run, obs := scene(t)
			c.set(&run, &obs)
			now := c.at
			if now.IsZero() {
				now = later
			}
			d := Decide(now, run, obs)
			assert.Equal(t, c.want, d.Action)
			if c.reason == "" {
				assert.Nil(t, d.Status)
			} else if assert.NotNil(t, d.Status) {
				assert.Equal(t, c.reason, d.Status.Succeeded.Reason)
			}
			wellFormed(t, now, run, d)
		})
	}
}

// wellFormed holds for every decision whatever led to it.
func wellFormed(t require.TestingT, now time.Time, run Run, d Decision) {
	terminal := d.Action == ActionFinish || d.Action == ActionRecord
	release := d.Action == ActionGiveBack || d.Action == ActionNextAttempt
	if terminal || release {
		require.NotNil(t, d.Status)
	}
	if !d.RequeueAt.IsZero() {
		require.True(t, d.RequeueAt.After(now), "a requeue lies in the future")
	}
	if !run.Terminal && d.Action == ActionNone {
		require.False(t, d.RequeueAt.IsZero(), "R41: who waits has a deadline")
	}
	if d.Status == nil {
		return
	}
	require.Equal(t, run.Attempt, d.Status.Attempt, "I7")
	require.Equal(t, terminal, d.Status.Ending != nil)
	require.Equal(t, terminal, d.Status.ACPReady != nil, "R4")
	require.Equal(t, terminal, d.Status.Succeeded.Status != Unknown)
	require.NotEmpty(t, d.Status.Succeeded.Reason)
	require.LessOrEqual(t, len(d.Status.Succeeded.Message), MaxMessageBytes)
	require.NotContains(t, d.Status.Succeeded.Message, testGoal, "I8")
	switch {
	case terminal:
		require.Equal(t, Condition{False, ReasonFinished, "the run has ended"}, *d.Status.ACPReady)
		require.Contains(t, []Phase{PhaseSucceeded, PhaseFailed}, d.Status.Phase)
		require.False(t, d.Status.Ending.CompletionTime.IsZero())
		require.Equal(t, now, d.Status.Ending.RecordedAt)
	case release:
		require.False(t, d.Status.Live())
	case d.Action == ActionDisown:
		want := run.Reservation
		want.By = ""
		require.Equal(t, want, d.Status.Reservation)
	default:
		require.Equal(t, run.Reservation, d.Status.Reservation)
	}
}

func TestRunWithoutAReservation(t *testing.T) {
	none := func(r *Run) { r.Reservation = Reservation{Attempt: 1} }
	check(t, map[string]decideCase{
		"terminal: nothing ever (I2, row 9)":    {func(r *Run, o *Observed) { r.Terminal = true; o.sees(told(wire.StateFinished)) }, startEnd, ActionNone, ""},
		"stored unresolved (row 45)":            {func(r *Run, _ *Observed) { r.Admitted = false; none(r) }, later, ActionFinish, ReasonNotAdmitted},
		"waits (R28)":                           {func(r *Run, _ *Observed) { none(r) }, later, ActionNone, ""},
		"cancelled before assignment (row 33)":  {func(r *Run, _ *Observed) { none(r); r.Cancel = true }, later, ActionFinish, ReasonCancelled},
		"Agent deleted or made again (row 50)":  {func(r *Run, o *Observed) { none(r); o.AgentGone = true }, later, ActionFinish, ReasonAgentNotFound},
		"its starting deadline ends it (R28)":   {func(r *Run, _ *Observed) { none(r) }, startEnd, ActionFinish, ReasonStartingDeadlineExceeded},
		"a lost attempt's running is not wait":  {func(r *Run, _ *Observed) { none(r); r.Spent = time.Minute }, startEnd, ActionNone, ""},
		"without limits it is bounded all same": {func(r *Run, _ *Observed) { none(r); r.Starting = 0 }, noon.Add(DefaultStarting), ActionFinish, ReasonStartingDeadlineExceeded},
	})
}

func TestSend(t *testing.T) {
	check(t, map[string]decideCase{
		"reserved by us: sent":                                  {func(_ *Run, _ *Observed) {}, later, ActionSend, ""},
		"found after a restart: looked at first (rows 2, 3)":    {func(_ *Run, o *Observed) { o.found() }, later, ActionLook, ReasonReserved},
		"unknown there, same journal: the same attempt (row 2)": {func(r *Run, o *Observed) { o.found(); o.absent(); r.By = "" }, later, ActionSend, ReasonReserved},
		"unknown there, but its maker may live: disowned first": {func(_ *Run, o *Observed) { o.found(); o.absent() }, later, ActionDisown, ReasonReserved},
		"disowned: its maker concludes nothing from not having": {func(r *Run, o *Observed) { r.By = ""; o.Link = LinkUnreachable }, later, ActionNone, ReasonTargetUnreachable},
		"disowned: nor from a refusal (rows 7, 8)":              {func(r *Run, o *Observed) { r.By = ""; o.refused(1, "") }, later, ActionLook, ReasonReserved},
		"nor one without a name":                                {func(r *Run, o *Observed) { r.By, o.Self = "", "" }, later, ActionLook, ReasonReserved},
		"unknown there by another journal's word: look":         {func(_ *Run, o *Observed) { o.found(); o.absent(); o.SeenJournal = "j0" }, later, ActionLook, ReasonReserved},
		"reply lost: looked at (row 10)":                        {func(_ *Run, o *Observed) { o.Sent.Count = 1 }, later, ActionLook, ReasonReserved},
		"reply lost, unknown there: the same again (row 14)":    {func(_ *Run, o *Observed) { o.Sent.Count = 1; o.absent() }, later, ActionSend, ReasonReserved},
		"accepted without a state: looked at":                   {func(_ *Run, o *Observed) { o.Sent = Sent{Count: 1, Outcome: SendAccepted} }, later, ActionLook, ""},
		"accepted, then forgotten by the same journal":          {func(r *Run, o *Observed) { r.AcceptedAt = reserved; o.absent() }, later, ActionFinish, ReasonOutcomeUnknown},
		"a call is under way: nothing beside it":                {func(_ *Run, o *Observed) { o.Sent.Count = 1; o.InFlight = true }, later, ActionNone, ReasonReserved},
		"backing off: later":                                    {func(_ *Run, o *Observed) { o.NotBefore = later.Add(time.Second) }, later, ActionNone, ""},
		"400 to the first send: terminal":                       {func(_ *Run, o *Observed) { o.Sent = Sent{Count: 1, Outcome: SendRejected} }, later, ActionFinish, ReasonRejected},
		"400 to a second send: not believed":                    {func(_ *Run, o *Observed) { o.Sent = Sent{Count: 2, Outcome: SendRejected} }, later, ActionLook, ReasonReserved},
		"400 after a restart: not believed":                     {func(_ *Run, o *Observed) { o.found(); o.Sent = Sent{Count: 1, Outcome: SendRejected} }, later, ActionLook, ReasonReserved},
	})
}

func TestNotTaken(t *testing.T) {
	check(t, map[string]decideCase{
		"dial failed, first send: given back":               {func(_ *Run, o *Observed) { o.refused(1, "") }, later, ActionGiveBack, ReasonTargetUnreachable},
		"421: voided first, for it may be of a spoilt copy": {func(_ *Run, o *Observed) { o.refused(1, wire.CodeMisdirected) }, later, ActionVoid, ReasonReserved},
		"507: voided first (row 19)":                        {func(_ *Run, o *Observed) { o.refused(1, wire.CodeJournalFull) }, later, ActionVoid, ReasonReserved},
		"406, first send: waits with that reason (row 49)":  {func(_ *Run, o *Observed) { o.refused(1, wire.CodeUnsupportedVersion) }, later, ActionVoid, ReasonTargetIncompatible},
		"401, first send: waits with that reason (row 36)":  {func(_ *Run, o *Observed) { o.refused(1, wire.CodeUnauthenticated) }, later, ActionVoid, ReasonTargetUnauthenticated},
		"429: voided first (row 28)":                        {func(_ *Run, o *Observed) { o.refused(1, wire.CodeBusy) }, later, ActionVoid, ReasonReserved},
		"503 draining: voided first (row 28)":               {func(_ *Run, o *Observed) { o.refused(1, wire.CodeDraining) }, later, ActionVoid, ReasonReserved},
		"503 agent: voided first (row 20)":                  {func(_ *Run, o *Observed) { o.refused(1, wire.CodeAgentUnavailable) }, later, ActionVoid, ReasonReserved},
		"429, then the void acknowledged: given back, no loss": {func(_ *Run, o *Observed) {
			o.refused(1, wire.CodeBusy)
			o.Seen, o.SeenJournal = told(wire.StateVoided), testJournal
		}, later, ActionGiveBack, ReasonTargetBusy},
		"503 to a second send: not given back (row 55)":     {func(_ *Run, o *Observed) { o.refused(2, wire.CodeDraining) }, later, ActionVoid, ReasonReserved},
		"dial failed, second send: stays on its Pod":        {func(_ *Run, o *Observed) { o.refused(2, "") }, later, ActionLook, ReasonReserved},
		"dial failed after a restart: stays on its Pod":     {func(_ *Run, o *Observed) { o.found(); o.refused(1, "") }, later, ActionLook, ReasonReserved},
		"406 to a second send: shown":                       {func(_ *Run, o *Observed) { o.refused(2, wire.CodeUnsupportedVersion) }, later, ActionVoid, ReasonTargetIncompatible},
		"unsent and the Link fails: given back":             {func(_ *Run, o *Observed) { o.Link = LinkUnreachable }, later, ActionGiveBack, ReasonTargetUnreachable},
		"unsent and our proof is refused: given back":       {func(_ *Run, o *Observed) { o.Link = LinkUnauthenticated }, later, ActionGiveBack, ReasonTargetUnauthenticated},
		"unsent and no version in common: given back":       {func(_ *Run, o *Observed) { o.Link = LinkIncompatible }, later, ActionGiveBack, ReasonTargetIncompatible},
		"unsent, the Link is opening: waits":                {func(_ *Run, o *Observed) { o.Link = LinkChallenging }, later, ActionNone, ""},
		"unsent, the Link never opens: given back":          {func(_ *Run, o *Observed) { o.Link = LinkChallenging }, reserved.Add(ContactLostAfter), ActionGiveBack, ReasonTargetUnreachable},
		"unsent and cordoned: returns (row 39)":             {func(_ *Run, o *Observed) { o.Cordoned = true }, later, ActionGiveBack, ReasonServiceRecasting},
		"unsent, the journal is another one: given back":    {func(_ *Run, o *Observed) { o.Journal = "j2" }, later, ActionGiveBack, ReasonTargetNotReady},
		"unsent and the Agent is gone":                      {func(_ *Run, o *Observed) { o.AgentGone = true }, later, ActionFinish, ReasonAgentNotFound},
		"unsent at the starting deadline":                   {func(_ *Run, _ *Observed) {}, startEnd, ActionFinish, ReasonStartingDeadlineExceeded},
		"moving: cordoned and perhaps sent is voided there": {func(_ *Run, o *Observed) { o.found(); o.absent(); o.Cordoned = true }, later, ActionVoid, ReasonReserved},
	})
}

func TestWhatTheHarnessHolds(t *testing.T) {
	check(t, map[string]decideCase{
		"accepted a moment ago: no write yet":     {func(_ *Run, o *Observed) { o.sees(told(wire.StateAccepted)) }, reserved.Add(WriteQueuedAfter - 1), ActionNone, ""},
		"accepted, queued: said":                  {func(_ *Run, o *Observed) { o.sees(told(wire.StateAccepted)) }, reserved.Add(WriteQueuedAfter), ActionNone, ReasonQueued},
		"running a moment ago: no write yet (P7)": {func(_ *Run, o *Observed) { o.sees(told(wire.StateRunning)) }, reserved.Add(WriteRunningAfter - 1), ActionNone, ""},
		"running, as was said before a restart: no second look (row 44)": {func(r *Run, o *Observed) {
			r.Reason = ReasonRunning
			o.sees(told(wire.StateRunning))
		}, reserved.Add(WriteRunningAfter - 1), ActionNone, ReasonRunning},
		"still running after a second: said": {func(_ *Run, o *Observed) { o.sees(told(wire.StateRunning)) }, reserved.Add(WriteRunningAfter), ActionNone, ReasonRunning},
		"found running after a restart (row 4)": {func(_ *Run, o *Observed) {
			o.found()
			o.Seen, o.SeenJournal, o.SeenSince = told(wire.StateRunning), testJournal, reserved
		}, later, ActionNone, ReasonRunning},
		"finished, by the feed: fetched":                 {func(_ *Run, o *Observed) { o.sees(told(wire.StateFinished)) }, later, ActionLook, ""},
		"finished: recorded (row 17)":                    {func(_ *Run, o *Observed) { o.sees(told(wire.StateFinished, envelope("Succeeded", "Completed"))) }, later, ActionRecord, "Completed"},
		"failed: recorded with its reason (rows 20, 21)": {func(_ *Run, o *Observed) { o.sees(told(wire.StateFinished, envelope("Failed", "AgentCrashed"))) }, later, ActionRecord, "AgentCrashed"},
		"finished under the old journal, known before its loss": {func(_ *Run, o *Observed) {
			o.sees(told(wire.StateFinished, envelope("Succeeded", "Completed")))
			o.Journal = "j2"
		}, later, ActionRecord, "Completed"},
		"finished and the Pod is gone: recorded": {func(_ *Run, o *Observed) {
			o.sees(told(wire.StateFinished, envelope("Succeeded", "Completed")))
			o.PodRead = PodGone
		}, later, ActionRecord, "Completed"},
		"finished past every deadline: the result (rows 5, 24)": {func(_ *Run, o *Observed) { o.sees(told(wire.StateFinished, envelope("Succeeded", "Completed"))) }, deadline.Add(time.Hour), ActionRecord, "Completed"},
		"interrupted, no retry wanted (row 16)":                 {func(_ *Run, o *Observed) { o.sees(told(wire.StateFinished, envelope("Interrupted", "Interrupted"))) }, later, ActionRecord, ReasonInterrupted},
		"interrupted, retry wanted (R45)": {func(r *Run, o *Observed) {
			r.BackoffLimit = 1
			o.sees(told(wire.StateFinished, envelope("Interrupted", "Interrupted")))
		}, later, ActionNextAttempt, ReasonTargetNotReady},
		"interrupted, retries used up": {func(r *Run, o *Observed) {
			r.BackoffLimit, r.Losses = 1, 1
			o.sees(told(wire.StateFinished, envelope("Interrupted", "Interrupted")))
		}, later, ActionRecord, ReasonInterrupted},
		"dropped as recorded: our view is stale (rows 7, 8)":  {func(_ *Run, o *Observed) { o.sees(told(wire.StateFinished, dropped)) }, later, ActionReadRun, ""},
		"dropped as recorded and there is no record (row 54)": {func(_ *Run, o *Observed) { o.sees(told(wire.StateFinished, dropped)); o.LiveRun = true }, later, ActionFinish, ReasonOutcomeUnknown},
		"the same number with another content (row 12)": {func(_ *Run, o *Observed) {
			o.sees(told(wire.StateFinished, otherGoal, envelope("Succeeded", "Completed")))
		}, later, ActionFinish, ReasonOutcomeUnknown},
		"another attempt's result is not ours (rows 32, 46)": {func(r *Run, o *Observed) {
			r.Attempt = 2
			o.sees(told(wire.StateFinished, envelope("Succeeded", "Completed")))
		}, later, ActionLook, ""},
		"another run's result is not ours (row 32)": {func(r *Run, o *Observed) {
			r.UID = "run-2"
			o.sees(told(wire.StateFinished, envelope("Succeeded", "Completed")))
		}, later, ActionLook, ""},
		"voided unasked (drain): given back, no loss (row 38)": {func(_ *Run, o *Observed) { o.sees(told(wire.StateVoided)) }, later, ActionGiveBack, ReasonTargetNotReady},
		"voided, and the starting deadline is over":            {func(_ *Run, o *Observed) { o.sees(told(wire.StateVoided)) }, startEnd, ActionFinish, ReasonStartingDeadlineExceeded},
		"voided, and the Agent is gone (row 50)":               {func(_ *Run, o *Observed) { o.sees(told(wire.StateVoided)); o.AgentGone = true }, later, ActionFinish, ReasonAgentNotFound},
		"voided by a journal that never saw it run: lost":      {func(_ *Run, o *Observed) { o.sees(told(wire.StateVoided)); o.SeenJournal, o.Journal = "j2", "j2" }, later, ActionFinish, ReasonOutcomeUnknown},
		"queued at the starting deadline: voided":              {func(_ *Run, o *Observed) { o.sees(told(wire.StateAccepted)) }, startEnd, ActionVoid, ""},
		"started at the starting deadline: goes on":            {func(_ *Run, o *Observed) { o.sees(told(wire.StateRunning)) }, startEnd, ActionNone, ReasonRunning},
		"running and its Agent deleted: goes on (R32)":         {func(_ *Run, o *Observed) { o.sees(told(wire.StateRunning)); o.AgentGone = true }, later, ActionNone, ReasonRunning},
		"perhaps sent at the starting deadline: voided":        {func(_ *Run, o *Observed) { o.Sent.Count = 1 }, startEnd, ActionVoid, ReasonReserved},
		"unknown there past its starting deadline: voided":     {func(_ *Run, o *Observed) { o.found(); o.absent() }, startEnd, ActionVoid, ReasonReserved},
	})
}

func TestTheTargetFails(t *testing.T) {
	check(t, map[string]decideCase{
		"the cache has lost the Pod: read live (row 51)": {func(_ *Run, o *Observed) { o.sees(told(wire.StateRunning)); o.PodSuspect = true }, later, ActionReadPod, ""},
		"the live read found it: not gone (row 51)": {func(_ *Run, o *Observed) {
			o.sees(told(wire.StateRunning))
			o.PodSuspect, o.PodRead, o.PodReadAt = true, PodPresent, later
		}, later, ActionNone, ReasonRunning},
		"…and is read again by and by": {func(_ *Run, o *Observed) {
			o.sees(told(wire.StateRunning))
			o.PodSuspect, o.PodRead, o.PodReadAt = true, PodPresent, reserved
		}, reserved.Add(PodReadEvery), ActionReadPod, ""},
		"the live read failed: proves nothing":                  {func(_ *Run, o *Observed) { o.sees(told(wire.StateRunning)); o.PodSuspect, o.PodReadAt = true, later }, later, ActionNone, ReasonRunning},
		"gone (row 22)":                                         {func(_ *Run, o *Observed) { o.sees(told(wire.StateRunning)); o.PodRead = PodGone }, later, ActionFinish, ReasonTargetLost},
		"evicted, object still there (row 47)":                  {func(_ *Run, o *Observed) { o.sees(told(wire.StateRunning)); o.PodRead = PodTerminal }, later, ActionFinish, ReasonTargetLost},
		"gone, found after a restart (row 22)":                  {func(_ *Run, o *Observed) { o.found(); o.PodRead = PodGone }, later, ActionFinish, ReasonTargetLost},
		"gone, retry wanted: elsewhere":                         {func(r *Run, o *Observed) { r.BackoffLimit = 1; o.sees(told(wire.StateRunning)); o.PodRead = PodGone }, later, ActionNextAttempt, ReasonServiceRecasting},
		"gone after an acknowledged void: no loss":              {func(r *Run, o *Observed) { o.sees(told(wire.StateVoided)); o.PodRead = PodGone }, later, ActionGiveBack, ReasonTargetNotReady},
		"gone before anything was sent: no loss (row 39)":       {func(_ *Run, o *Observed) { o.PodRead = PodGone }, later, ActionGiveBack, ReasonServiceRecasting},
		"gone while the send was under way: may have run":       {func(_ *Run, o *Observed) { o.PodRead, o.InFlight = PodGone, true }, later, ActionFinish, ReasonTargetLost},
		"journal lost while it ran: asked first (row 18)":       {func(_ *Run, o *Observed) { o.sees(told(wire.StateRunning)); o.Journal = "j2" }, later, ActionLook, ""},
		"journal lost while it ran, unknown there (row 18)":     {func(_ *Run, o *Observed) { o.Sent.Count = 1; o.lost() }, later, ActionFinish, ReasonOutcomeUnknown},
		"a Link older than the reservation: asked (row 8)":      {func(_ *Run, o *Observed) { o.found(); o.Journal = "j0" }, later, ActionLook, ""},
		"journal lost, unknown there: never sent again":         {func(_ *Run, o *Observed) { o.found(); o.lost() }, later, ActionFinish, ReasonOutcomeUnknown},
		"journal lost, retry wanted":                            {func(r *Run, o *Observed) { r.BackoffLimit = 1; o.found(); o.lost() }, later, ActionNextAttempt, ReasonTargetNotReady},
		"another journal on a Link not verified: not believed":  {func(_ *Run, o *Observed) { o.sees(told(wire.StateRunning)); o.Journal, o.Link = "j2", LinkUnreachable }, later, ActionNone, ""},
		"silent for less than 90 s: nothing":                    {func(_ *Run, o *Observed) { o.sees(told(wire.StateRunning)); o.Link = LinkUnreachable }, reserved.Add(ContactLostAfter - 1), ActionNone, ""},
		"silent for 90 s: said, not concluded (row 24)":         {func(_ *Run, o *Observed) { o.sees(told(wire.StateRunning)); o.Link = LinkUnreachable }, reserved.Add(ContactLostAfter), ActionNone, ReasonContactLost},
		"a stranger answers there: the same (row 27)":           {func(r *Run, o *Observed) { r.AcceptedAt = reserved; o.Mine, o.Link = false, LinkUnauthenticated }, startEnd, ActionNone, ReasonContactLost},
		"a stranger answers, not known to be accepted: at once": {func(_ *Run, o *Observed) { o.found(); o.Link = LinkUnreachable }, later, ActionNone, ReasonTargetUnreachable},
		"not challenged yet: no reason to say anything":         {func(_ *Run, o *Observed) { o.found(); o.Link = LinkChallenging }, later, ActionNone, ""},
		"silent, not known to be accepted: its Link's reason":   {func(_ *Run, o *Observed) { o.found(); o.Link = LinkIncompatible }, startEnd, ActionNone, ReasonTargetIncompatible},
		"back after ContactLost: said at once": {func(r *Run, o *Observed) {
			r.Reason = ReasonContactLost
			o.sees(told(wire.StateRunning))
			o.SeenSince = later
		}, later, ActionNone, ReasonRunning},
		"past the deadline: one last look (row 25)": {func(_ *Run, o *Observed) {
			o.sees(told(wire.StateRunning))
			o.Link = LinkUnreachable
		}, deadline, ActionLook, ""},
		"nothing is concluded from a look that failed (row 5)": {func(_ *Run, o *Observed) {
			o.found()
			o.Link = LinkChallenging
		}, deadline.Add(LastLookPatience - 1), ActionLook, ""},
		"…it is repeated, not in a hot loop": {func(_ *Run, o *Observed) {
			o.found()
			o.Link, o.NotBefore = LinkChallenging, deadline.Add(time.Second)
		}, deadline.Add(1), ActionNone, ""},
		"looked in vain for 30 s: OutcomeUnknown (row 25)": {func(_ *Run, o *Observed) {
			o.sees(told(wire.StateRunning))
			o.Link = LinkUnreachable
		}, deadline.Add(LastLookPatience), ActionFinish, ReasonOutcomeUnknown},
		"the last look hangs: not for ever (I3)": {func(_ *Run, o *Observed) {
			o.sees(told(wire.StateRunning))
			o.Link = LinkUnreachable
			o.InFlight = true
		}, deadline.Add(LastLookPatience), ActionFinish, ReasonOutcomeUnknown},
		"controller down past the deadline: looks first (r. 5)": {func(_ *Run, o *Observed) { o.found(); o.Since = deadline.Add(time.Hour) }, deadline.Add(time.Hour), ActionLook, ""},
		"harness still runs it past the deadline: stopped":      {func(_ *Run, o *Observed) { o.sees(told(wire.StateRunning)) }, deadline, ActionCancel, ""},
		"…stopping: awaited":                                    {func(_ *Run, o *Observed) { o.sees(told(wire.StateRunning, stopping)) }, deadline.Add(time.Second), ActionNone, ""},
		"…not for ever (I3)":                                    {func(_ *Run, o *Observed) { o.sees(told(wire.StateRunning, stopping)) }, deadline.Add(LastLookPatience), ActionFinish, ReasonOutcomeUnknown},
		"back at the deadline, never taken: voided":             {func(_ *Run, o *Observed) { o.found(); o.absent() }, deadline, ActionVoid, ""},
		"retry past the deadline is none":                       {func(r *Run, o *Observed) { r.BackoffLimit = 9; o.found(); o.PodRead = PodGone }, startEnd, ActionFinish, ReasonTargetLost},
	})
}

func TestCancelLadder(t *testing.T) {
	cancel := func(r *Run, o *Observed) { r.Cancel = true; o.CancelSince = later }
	over := later.Add(CancelPatience)
	check(t, map[string]decideCase{
		"unsent: over at once (row 33)":                   {func(r *Run, o *Observed) { cancel(r, o) }, later, ActionFinish, ReasonCancelled},
		"a send is under way: not over at once":           {func(r *Run, o *Observed) { cancel(r, o); o.InFlight = true }, later, ActionNone, ReasonCancelling},
		"perhaps sent: DELETE":                            {func(r *Run, o *Observed) { cancel(r, o); o.Sent.Count = 1 }, later, ActionCancel, ReasonCancelling},
		"found after a restart: DELETE":                   {func(r *Run, o *Observed) { cancel(r, o); o.found() }, later, ActionCancel, ReasonCancelling},
		"running: DELETE (row 33)":                        {func(r *Run, o *Observed) { cancel(r, o); o.sees(told(wire.StateRunning)) }, later, ActionCancel, ReasonCancelling},
		"confirmed: its end is awaited":                   {func(r *Run, o *Observed) { cancel(r, o); o.sees(told(wire.StateRunning, stopping)) }, later, ActionNone, ReasonCancelling},
		"confirmed by a journal since lost: DELETE again": {func(r *Run, o *Observed) { cancel(r, o); o.sees(told(wire.StateRunning, stopping)); o.Journal = "j2" }, later, ActionCancel, ReasonCancelling},
		"unreachable: said":                               {func(r *Run, o *Observed) { cancel(r, o); o.sees(told(wire.StateRunning)); o.Link = LinkUnreachable }, later, ActionNone, ReasonCancelling},
		"30 s over: CancelUnconfirmed (R42)":              {func(r *Run, o *Observed) { cancel(r, o); o.sees(told(wire.StateRunning, stopping)) }, over, ActionFinish, ReasonCancelUnconfirmed},
		"voided: Cancelled":                               {func(r *Run, o *Observed) { cancel(r, o); o.sees(told(wire.StateVoided)) }, over, ActionFinish, ReasonCancelled},
		"voided under the new journal: Cancelled": {func(r *Run, o *Observed) {
			cancel(r, o)
			o.sees(told(wire.StateVoided))
			o.Journal, o.SeenJournal = "j2", "j2"
		}, later, ActionFinish, ReasonCancelled},
		"stopped: the envelope": {func(r *Run, o *Observed) {
			cancel(r, o)
			o.sees(told(wire.StateFinished, envelope("Cancelled", "Cancelled")))
		}, over, ActionRecord, ReasonCancelled},
		"it had ended: the real result (row 33)": {func(r *Run, o *Observed) {
			cancel(r, o)
			o.sees(told(wire.StateFinished, envelope("Succeeded", "Completed")))
		}, over, ActionRecord, "Completed"},
		"ended, by the feed: fetched":   {func(r *Run, o *Observed) { cancel(r, o); o.sees(told(wire.StateFinished)) }, later, ActionLook, ReasonCancelling},
		"the Pod is gone: Cancelled":    {func(r *Run, o *Observed) { cancel(r, o); o.sees(told(wire.StateRunning)); o.PodRead = PodGone }, later, ActionFinish, ReasonCancelled},
		"the Pod seems gone: read live": {func(r *Run, o *Observed) { cancel(r, o); o.sees(told(wire.StateRunning)); o.PodSuspect = true }, later, ActionReadPod, ""},
		"interrupted meanwhile: never another attempt": {func(r *Run, o *Observed) {
			cancel(r, o)
			r.BackoffLimit = 3
			o.sees(told(wire.StateFinished, envelope("Interrupted", "Interrupted")))
		}, later, ActionRecord, ReasonInterrupted},
		"after 429: DELETE makes sure":                     {func(r *Run, o *Observed) { cancel(r, o); o.refused(1, wire.CodeBusy) }, later, ActionCancel, ReasonCancelling},
		"never seen before by this process: patience anew": {func(r *Run, o *Observed) { cancel(r, o); o.sees(told(wire.StateRunning)); o.CancelSince = time.Time{} }, over, ActionCancel, ReasonCancelling},
	})
}
