package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/process"
)

// task is the Pod of a one-shot run.
type task struct {
	*place
	goal, left string // the goal's file, and the termination log
}

// newTask makes a Pod as kubelet does: with a termination log that is there and empty.
func newTask(t *testing.T, goal string) *task {
	t.Helper()
	k := &task{place: newPlace(t), goal: filepath.Join(t.TempDir(), "goal"), left: filepath.Join(t.TempDir(), "termination-log")}
	require.NoError(t, os.WriteFile(k.goal, []byte(goal), 0o600))
	require.NoError(t, os.WriteFile(k.left, nil, 0o600))
	return k
}

func (k *task) start(args ...string) *booted {
	k.t.Helper()
	return k.launch(&booted{place: k.place, log: process.NewOutput(), out: process.NewOutput(), exit: make(chan struct{})}, "run", k.environ(), args)
}

func (k *task) environ() []string {
	return withEnv([]string{
		"PATH=" + os.Getenv("PATH"), "POD_NAME=" + k.Identity.PodName, "HEARTH_ACP_LISTEN=127.0.0.1:0", "HEARTH_METRICS_LISTEN=127.0.0.1:0", "HEARTH_DATA_DIR=" + k.Dir, "HEARTH_GOAL_FILE=" + k.goal,
		"HEARTH_TERMINATION_LOG=" + k.left, "HEARTH_ACP_VIEW_KEY=" + token, "AGENT_EFFECTS_FILE=" + k.effects, "GOCOVERDIR=" + os.Getenv("GOCOVERDIR"),
	}, k.env)
}

// envelope is the termination message: what a controller would read of it.
func (k *task) envelope() wire.Envelope {
	k.t.Helper()
	message, err := os.ReadFile(k.left)
	require.NoError(k.t, err)
	e, err := wire.DecodeTermination(message)
	require.NoError(k.t, err, "%s", message)
	assert.NotContains(k.t, string(message), token)
	return e
}

// R11: every outcome has its exit code, its envelope and its last line.
func TestAOneShotHarnessEndsWithItsCodeAndEnvelope(t *testing.T) {
	for name, c := range map[string]struct {
		goal    string
		args    []string
		code    int
		outcome wire.Outcome
		reason  wire.Reason
		says    string // the message
		out     string
	}{
		"completed": {"Review it. say: looks good ;; usage: 3 4", nil, 0, "Succeeded", "Completed", "", "looks good\n"},
		"limit":     {"say: half ;; stop: max_turn_requests", nil, 2, "Failed", "LimitReached", "limit of model requests", "half\n"},
		"budget":    {"say: half ;; counted: 99 2 ;; mute:", []string{"--budget-tokens=100"}, 2, "Failed", "BudgetExceeded", "100 tokens", "half\n"},
		"cost":      {"told: 1 5.01 USD ;; mute:", []string{"--budget-cost=5 USD"}, 2, "Failed", "BudgetExceeded", "5 USD is exceeded: the agent tells of 5.01", ""},
		"deadline":  {"mute:", []string{"--active-deadline=2001ms"}, 2, "Failed", "DeadlineExceeded", "own time of 3 s", ""},
		"refused":   {"stop: refusal", nil, 3, "Failed", "Refused", "refused the goal", ""},
		"error":     {"error: -32603 the provider is away", nil, 1, "Failed", "AgentError", "the provider is away", ""},
		"crash":     {"crash: 7 Review: out of memory", nil, 1, "Failed", "AgentCrashed", "status 7", ""},
		"killed":    {"die:", nil, 1, "Failed", "AgentCrashed", "SIGKILL", ""},
		"silence":   {"mute:", []string{"--silence=500ms"}, 1, "Failed", "AgentSilent", "500ms", ""},
		"no model":  {"say: ;; stop: end_turn", nil, 1, "Failed", "NoEvidence", "without any sign", ""},
	} {
		t.Run(name, func(t *testing.T) {
			k := newTask(t, c.goal)
			b := k.start(c.args...)
			assert.Equal(t, c.code, b.code(), b.log.String())
			e := k.envelope()
			assert.Equal(t, c.outcome, e.Outcome)
			assert.Equal(t, c.reason, e.Reason)
			assert.Contains(t, e.Message, c.says)
			assert.Equal(t, c.out, b.out.String())
			assert.Contains(t, b.log.String(), "\nharness: "+string(c.outcome)+"/"+string(c.reason))
			assert.Equal(t, 1, k.effectsOf(c.goal), "once")
			assert.NotContains(t, b.log.String(), "level=ERROR", "nothing went wrong in the harness")
		})
	}
}

// R1, R8: port 4000 is open while the agent answers, and only then; the keys are out of the agent's reach.
func TestAOneShotHarnessIsReadyWhileItsAgentAnswers(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	k := newTask(t, "env: HEARTH_ACP_VIEW_KEY ;; env: KONVEYOR_ACP_SECRET_KEY ;; env: POD_NAME ;; wait: "+gate)
	k.env = []string{"KONVEYOR_ACP_SECRET_KEY=another-" + token}
	b := k.start()
	address := b.acp()
	assert.False(t, refuses(t, address))
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	assert.Equal(t, 0, b.code(), b.log.String())
	assert.True(t, refuses(t, address))
	assert.Contains(t, b.log.String(), "acp: closed")
	assert.Equal(t, "HEARTH_ACP_VIEW_KEY=KONVEYOR_ACP_SECRET_KEY=POD_NAME="+k.Identity.PodName+"\n", b.out.String())

	mute := newTask(t, "say: x")
	mute.env = []string{"AGENT_START=mute"}
	b = mute.start("--start-timeout=50ms")
	assert.Equal(t, 1, b.code())
	assert.NotContains(t, b.log.String(), "acp: listening")
	assert.Contains(t, mute.envelope().Message, "no answer within 50ms")
}

// SPEC.md, One-shot runs: what keeps it from starting is in the envelope, on stderr in one line, and never looks like a limit.
func TestAOneShotHarnessThatCannotStartSaysWhy(t *testing.T) {
	goal := func(k *task, content string) { require.NoError(t, os.WriteFile(k.goal, []byte(content), 0o600)) }
	for name, c := range map[string]struct {
		args []string
		env  string
		edit func(k *task)
		says string
	}{
		"no goal file":        {edit: func(k *task) { k.goal = "" }, says: "--goal-file (HEARTH_GOAL_FILE): expected the file"},
		"goal file missing":   {edit: func(k *task) { k.goal = "/no/such/file" }, says: "/no/such/file"},
		"goal empty":          {edit: func(k *task) { goal(k, " \n") }, says: "nothing but white space"},
		"goal too large":      {edit: func(k *task) { goal(k, strings.Repeat("g", wire.MaxGoalBytes+1)) }, says: "at most 262144 bytes"},
		"unknown flag":        {args: []string{"--budget-token=1"}, says: "unknown flag: --budget-token"},
		"unknown variable":    {env: "HEARTH_BUDGET_TOKEN=1", says: "HEARTH_BUDGET_TOKEN: harness run has no such variable; the nearest is HEARTH_BUDGET_TOKENS"},
		"serve's variable":    {env: "HEARTH_KEEP=1", says: "harness run has no such variable"},
		"tokens that are not": {env: "HEARTH_BUDGET_TOKENS=many", says: "HEARTH_BUDGET_TOKENS: expected a whole number"},
		"negative tokens":     {env: "HEARTH_BUDGET_TOKENS=-1", says: "--budget-tokens (HEARTH_BUDGET_TOKENS): expected a positive number"},
		"cost without unit":   {env: "HEARTH_BUDGET_COST=5", says: `expected a positive amount and a currency, as in "5 USD"`},
		"cost of nothing":     {env: "HEARTH_BUDGET_COST=0.0 USD", says: "expected a positive amount"},
		"cost below nothing":  {env: "HEARTH_BUDGET_COST=-5 USD", says: "expected a positive amount"},
		"negative deadline":   {env: "HEARTH_ACTIVE_DEADLINE=-1s", says: "--active-deadline (HEARTH_ACTIVE_DEADLINE): expected a positive duration"},
		"no agent command":    {edit: func(k *task) { k.command = nil }, says: "as in harness run -- goose acp"},
		"agent not found":     {edit: func(k *task) { k.command = []string{"no-such-agent"} }, says: `"no-such-agent"`},
		"agent that ends":     {env: "AGENT_START=exit", says: "could not be started 3 times in a row; the last time: "},
		"port that is none":   {env: "HEARTH_ACP_LISTEN=nowhere:x", says: "acp: listen on nowhere:x"},
		"key too short":       {env: "HEARTH_ACP_VIEW_KEY=short", says: "HEARTH_ACP_VIEW_KEY: expected at least 32 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newTask(t, "mute:")
			if c.env != "" {
				k.env = []string{c.env}
			}
			if c.edit != nil {
				c.edit(k)
			}
			b := k.start(c.args...)
			assert.Equal(t, 1, b.code(), b.log.String())
			e := k.envelope()
			assert.Equal(t, wire.OutcomeFailed, e.Outcome)
			assert.Equal(t, wire.ReasonAgentError, e.Reason)
			assert.Contains(t, e.Message, c.says)
			assert.Equal(t, 1, strings.Count(b.log.String(), "harness: Failed/AgentError"), b.log.String())
			assert.Empty(t, b.out.String())
		})
	}
}

// A flag says where the envelope goes even if another flag is wrong, and so does the variable.
func TestWhereTheEnvelopeGoesIsKnownWhateverElseIsWrong(t *testing.T) {
	c, err := parseRun([]string{"--termination-log=/a", "--nonsense"}, []string{"HEARTH_TERMINATION_LOG=/b"})
	require.Error(t, err)
	assert.Equal(t, "/a", c.termination)
	c, err = parseRun([]string{"--nonsense"}, []string{"HEARTH_TERMINATION_LOG=/b"})
	require.Error(t, err)
	assert.Equal(t, "/b", c.termination)
	c, err = parseRun(nil, []string{"HEARTH_ACTIVE_DEADLINE=0s", "HEARTH_DRAIN=0s"})
	require.ErrorContains(t, err, "no agent command", "no limit is none")
	assert.Equal(t, "/dev/termination-log", c.termination)
}

// SPEC.md, One-shot runs: a termination log that cannot be written is said, and changes nothing else.
func TestATerminationLogThatCannotBeWrittenChangesNoCode(t *testing.T) {
	k := newTask(t, "say: done")
	k.left = filepath.Join(k.left, "below")
	b := k.start()
	assert.Equal(t, 0, b.code())
	assert.Contains(t, b.log.String(), "the result could not be left as termination message")
	assert.Equal(t, "done\n", b.out.String())
}

// R11: the envelope is no longer than what kubelet keeps of it.
func TestTheEnvelopeIsCutToWhatIsKept(t *testing.T) {
	k := newTask(t, "bytes: "+strings.Repeat("61", 5000))
	k.env = []string{"HEARTH_TERMINATION_BYTES=1024"}
	assert.Equal(t, 0, k.start().code())
	message, err := os.ReadFile(k.left)
	require.NoError(t, err)
	assert.LessOrEqual(t, len(message), 1024)
	assert.Equal(t, int64(5000), k.envelope().Truncation.OriginalBytes)

	k = newTask(t, "say: done")
	b := k.start("--termination-bytes=1023")
	assert.Equal(t, 1, b.code())
	assert.Contains(t, b.log.String(), "--termination-bytes (HEARTH_TERMINATION_BYTES): expected 1024 to 4096, got 1023")
}

// SPEC.md, One-shot runs: a log that nobody reads any more changes neither envelope nor exit code.
func TestALogThatIsClosedEndsNothing(t *testing.T) {
	for _, stream := range []string{"stdout", "stderr"} {
		k := newTask(t, "say: done")
		reader, writer, err := os.Pipe()
		require.NoError(t, err)
		require.NoError(t, reader.Close())
		b := k.launch(&booted{place: k.place, log: process.NewOutput(), out: process.NewOutput(), exit: make(chan struct{}), closed: map[string]*os.File{stream: writer}}, "run", k.environ(), nil)
		require.NoError(t, writer.Close())
		assert.Equal(t, 0, b.code(), stream)
		assert.Equal(t, "done", k.envelope().Output.Value, stream)
	}
}

// SPEC.md, Trust: what an agent writes into the termination log does not stay there, because it is gone before the envelope is left.
func TestTheEnvelopeReplacesWhatTheAgentLeft(t *testing.T) {
	k := newTask(t, "say: mine")
	k.command = []string{"/bin/sh", "-c", `(trap "" TERM; while :; do yes forged | head -c 9999 >"$1"; sleep 0.01; done) & exec "$2"`, "sh", k.left, k.command[0]}
	assert.Equal(t, 0, k.start().code())
	assert.Equal(t, "mine", k.envelope().Output.Value)
}

// Row 38; SPEC.md, Cancel ladder: SIGTERM ends the turn, and the envelope is there before the process is gone.
func TestSIGTERMEndsAOneShotRun(t *testing.T) {
	for name, c := range map[string]struct {
		goal    string
		drain   string
		signals int
		code    int
		outcome wire.Outcome
		warns   string
	}{
		"obeys":                {"say: half ;; daemon: ;; hidden: ;; child: ;; STARTED ;; mute:", "0s", 1, 1, "Cancelled", "were ended with the agent"},
		"deaf":                 {"say: half ;; daemon: ;; deaf: ;; STARTED ;; mute:", "0s", 1, 1, "Cancelled", "ended by force"},
		"ends within the time": {"say: half ;; daemon: ;; STARTED ;; wait: GATE", "1h", 1, 0, "Succeeded", ""},
		"second signal":        {"say: half ;; daemon: ;; STARTED ;; mute:", "1h", 2, 1, "Cancelled", ""},
		"end of the time":      {"say: half ;; daemon: ;; STARTED ;; mute:", "50ms", 1, 1, "Cancelled", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := filepath.Join(t.TempDir(), "gate")
			started := filepath.Join(t.TempDir(), "started")
			k := newTask(t, strings.NewReplacer("GATE", gate, "STARTED", "touch: "+started).Replace(c.goal))
			b := k.start("--drain=" + c.drain)
			require.Eventually(t, func() bool { _, err := os.Stat(started); return err == nil }, patience, tick)
			address := b.acp()
			for n := range c.signals {
				b.signal(syscall.SIGTERM)
				b.log.AwaitNth(t, "asked to end", n+1)
			}
			require.NoError(t, os.WriteFile(gate, nil, 0o600))
			assert.Equal(t, c.code, b.code(), b.log.String())
			e := k.envelope()
			assert.Equal(t, c.outcome, e.Outcome)
			if c.outcome == wire.OutcomeCancelled {
				assert.Equal(t, "the harness was asked to end (terminated)", e.Message)
			}
			assert.Contains(t, strings.Join(e.Warnings, "\n"), c.warns)
			assert.True(t, strings.HasPrefix(b.out.String(), "half"), b.out.String())
			assert.True(t, refuses(t, address))
			for _, word := range strings.Fields(b.out.String()) {
				if pid, is := strings.CutPrefix(word, "pid="); is {
					n, err := strconv.Atoi(strings.TrimRight(pid, "\n"))
					require.NoError(t, err)
					assert.ErrorIs(t, syscall.Kill(n, 0), syscall.ESRCH, "process %d lives", n)
				}
			}
		})
	}
}

// R30: a run's own time counts from the start of its harness, or the controller's own deadline, which counts from the container's, would
// come first where an agent takes long to start.
func TestTheOwnTimeOfAOneShotRunHasTheStartOfItsAgent(t *testing.T) {
	there := filepath.Join(t.TempDir(), "there")
	k := newTask(t, "say: never")
	k.env = []string{"AGENT_START=exit", "AGENT_START_FILE=" + there}
	b := k.start("--active-deadline=1s")
	again := "the start file is not there"
	require.Eventually(t, func() bool { return strings.Count(b.log.String(), again) > 1 }, patience, tick, "a second is over")
	require.NoError(t, os.WriteFile(there, nil, 0o600))
	assert.Equal(t, 2, b.code(), b.log.String())
	assert.Equal(t, wire.ReasonDeadlineExceeded, k.envelope().Reason)
	assert.Contains(t, k.envelope().Message, "nothing was sent")
	assert.Zero(t, k.effectsOf("say: never"))
}

func TestSIGTERMBeforeTheAgentAnswersEndsIt(t *testing.T) {
	k := newTask(t, "say: never")
	k.env = []string{"AGENT_START=mute"}
	b := k.start()
	require.Eventually(t, func() bool { return len(childrenOf(t, b.cmd.Process.Pid)) > 0 }, patience, tick)
	b.signal(syscall.SIGTERM)
	assert.Equal(t, 1, b.code())
	assert.Equal(t, wire.OutcomeCancelled, k.envelope().Outcome)
	assert.Contains(t, k.envelope().Message, "before the start")
	assert.Zero(t, k.effectsOf("say: never"))
}

// kubelet kills what does not end in its grace period: the termination message then says what is known.
func TestAHarnessKilledWhileItEndsHasLeftWhatIsKnown(t *testing.T) {
	started := filepath.Join(t.TempDir(), "started")
	k := newTask(t, "say: half ;; deaf: ;; touch: "+started+" ;; mute:")
	b := k.start()
	require.Eventually(t, func() bool { _, err := os.Stat(started); return err == nil }, patience, tick)
	b.signal(syscall.SIGTERM)
	require.Eventually(t, func() bool {
		message, err := os.ReadFile(k.left)
		return err == nil && len(message) > 0
	}, patience, tick)
	b.kill()
	e := k.envelope()
	assert.Equal(t, wire.OutcomeCancelled, e.Outcome)
	assert.Contains(t, e.Message, "was killed before the agent had ended")
}

// The agent's own process killed from outside, in mid-turn.
func TestAnAgentKilledInMidTurnEndsTheRun(t *testing.T) {
	k := newTask(t, "say: half ;; mute:")
	b := k.start()
	pid, err := strconv.Atoi(b.log.Await(t, `agent: ready.* pid=(\d+)`))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return k.effectsOf("say: half ;; mute:") == 1 }, patience, tick)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	assert.Equal(t, 1, b.code())
	assert.Equal(t, wire.ReasonAgentCrashed, k.envelope().Reason)
	assert.Equal(t, 1, k.effectsOf("say: half ;; mute:"), "it is not tried again")
}

// R11, row 34: whatever an agent says, the termination message is valid JSON within 4,096 bytes that tells of the whole, and the log
// has more of it, with nothing that commands a terminal.
func TestAnyOutputIsLeftWithinBounds(t *testing.T) {
	k := newTask(t, "huge: 3000000")
	b := k.start()
	require.Equal(t, 0, b.code(), b.log.String())
	message, err := os.ReadFile(k.left)
	require.NoError(t, err)
	assert.LessOrEqual(t, len(message), wire.MaxTerminationBytes)
	assert.True(t, jsontext.Value(message).IsValid())
	assert.Equal(t, wire.WholeText(strings.Repeat("x", 3000000)), k.envelope().Truncation)
	assert.Greater(t, len(b.out.String()), 800_000)
	assert.LessOrEqual(t, len(b.out.String()), wire.MaxEnvelopeBytes)

	k = newTask(t, "bytes: fffe5c75303031625b324a5c7530303062c39f5c75303030305c725c6e") // FF FE ESC[2J VT ß NUL CR LF
	b = k.start()
	require.Equal(t, 0, b.code(), b.log.String())
	assert.Equal(t, "\uFFFD\uFFFD\x1b[2J\vß\uFFFD\r\n", k.envelope().Output.Value)
	assert.Equal(t, "\uFFFD\uFFFD\uFFFD[2J\uFFFDß\uFFFD\n", b.out.String())
}

func TestWhatPeopleReadCommandsNoTerminal(t *testing.T) {
	assert.Equal(t, "a\tb\nc d\u200de\u00a0f", legible("a\tb\r\nc d\u200de\u00a0f"))
	for _, r := range "\x00\a\b\v\f\r\x1b\x7f\u0085\u009b\u202e\u2066\u2028\ufeff\U000e0041" {
		assert.Equal(t, "\uFFFD", legible(string(r)), "%U", r)
	}
}

// SPEC.md, JSON output: a record never has half of what was asked for and calls it a success.
func TestJSONThatDoesNotFitIsResultTooLarge(t *testing.T) {
	e := wire.Envelope{
		APIVersion: wire.ResultAPIVersion, Outcome: wire.OutcomeSucceeded, Reason: wire.ReasonCompleted,
		Output: &wire.Output{MediaType: "application/json", Value: `"` + strings.Repeat("x", 3000) + `"`},
	}
	assert.Equal(t, e, keepWhole(e, 4096))
	got := keepWhole(e, 3000)
	assert.Equal(t, wire.OutcomeFailed, got.Outcome)
	assert.Equal(t, wire.ReasonResultTooLarge, got.Reason)
	assert.Contains(t, got.Message, "JSON of 3002 bytes does not fit into a termination message of 3000")
	assert.Equal(t, e.Output, got.Output, "the log gets the whole")
	e.Output.MediaType = "text/plain"
	assert.Equal(t, e, keepWhole(e, 3000), "text may be cut")
	e.Output = nil
	assert.Equal(t, e, keepWhole(e, 1024))
}
