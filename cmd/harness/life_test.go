package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/standing"
	"github.com/hearthdev/hearth/test/agent/agenttest"
	"github.com/hearthdev/hearth/test/process"
)

// effects counts how often the agent was given each goal.
func (p *place) effectsOf(goal string) int {
	p.t.Helper()
	n := 0
	for _, e := range agenttest.Effects(p.t, p.effects) {
		if e.Goal == goal {
			n++
		}
	}
	return n
}

// SPEC.md, Harness: delivery first, port 4000 last; both do their work.
func TestAHarnessBootsInOrderAndCarriesOutAGoal(t *testing.T) {
	p := newPlace(t)
	goalFile := filepath.Join(t.TempDir(), "goal")
	require.NoError(t, os.WriteFile(goalFile, []byte("You are thorough.\n"), 0o600))
	p.env = []string{"HEARTH_GOAL_FILE=" + goalFile}
	b := p.ready()
	text := b.log.String()
	assert.Less(t, strings.Index(text, "delivery: listening"), strings.Index(text, "acp: listening"))
	assert.Less(t, strings.Index(text, "agent: ready"), strings.Index(text, "acp: listening"))
	assert.Equal(t, wire.AgentReady, b.boot.Agent.State)
	assert.Equal(t, p.Identity, b.boot.Identity)

	response, err := http.Get("http://" + b.acp() + "/healthz") //nolint:noctx,gosec // loopback
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	assert.Equal(t, http.StatusOK, response.StatusCode)

	goal := "blocks: ;; say: looks good ;; usage: 3 4"
	b.accepted("run", goal, wire.StateFinished)
	e := b.attempt("run").Envelope
	require.NotNil(t, e)
	assert.Equal(t, wire.OutcomeSucceeded, e.Outcome, e.Message)
	assert.Contains(t, e.Output.Value, "looks good")
	assert.Contains(t, e.Output.Value, "You are thorough.", "the standing goal goes before the first goal of a session")
	assert.Equal(t, 1, p.effectsOf(goal))
}

// SPEC.md, Harness: while no agent answers, 4000 is closed, and 4100 says why nothing is taken.
func TestAnAgentThatDoesNotSpeakLeaves4000ClosedAnd4100Open(t *testing.T) {
	for name, agent := range map[string]struct {
		env     string
		command []string
		says    string
	}{
		"mute":           {env: "AGENT_START=mute", says: "no answer within 2s"},
		"another tongue": {command: []string{"/bin/sh", "-c", "echo hello; exec cat"}, says: "were no messages of the Agent Client Protocol"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.env = []string{agent.env}
			if agent.command != nil {
				p.command = agent.command
			}
			b := p.start("--start-timeout=2s") // and three of them until it gives up
			b.log.Await(t, agent.says)
			assert.NotContains(t, b.log.String(), "acp: listening")
			b.challenge()
			var problem wire.Problem
			assert.Equal(t, http.StatusServiceUnavailable, b.deliver("run", "Review this.", &problem))
			assert.Equal(t, wire.CodeAgentUnavailable, problem.Code)
		})
	}
}

func TestWithoutARootSecretTheHarnessServesWithoutDelivery(t *testing.T) {
	p := newPlace(t)
	b := &booted{place: p}
	cmd := exec.CommandContext(t.Context(), binary, append([]string{"serve", "--acp-listen=127.0.0.1:0", "--data-dir=" + p.Dir, "--"}, p.command...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	b.log = process.NewOutput()
	cmd.Stderr = b.log
	require.NoError(t, cmd.Start())
	assert.False(t, refuses(t, b.acp()))
	assert.NotContains(t, b.log.String(), "delivery: listening")
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait(), b.log.String())
	assert.NoFileExists(t, filepath.Join(p.Dir, "journal.db"))
}

// Rows 15, 16, 17: SIGKILL with one attempt finished, one running and one only accepted.
func TestAKilledHarnessKeepsWhatItPromised(t *testing.T) {
	p := newPlace(t)
	b := p.ready()
	b.accepted("finished", "say: kept", wire.StateFinished)
	b.accepted("running", "mute:", wire.StateRunning)
	b.accepted("waiting", "say: after all", wire.StateAccepted)
	journal := b.boot.Journal
	b.kill()

	b = p.ready()
	assert.Equal(t, journal, b.boot.Journal)
	assert.Equal(t, "kept", b.attempt("finished").Envelope.Output.Value, "row 17")
	interrupted := b.attempt("running")
	assert.Equal(t, wire.StateFinished, interrupted.State, "row 16")
	assert.Equal(t, wire.OutcomeInterrupted, interrupted.Envelope.Outcome)
	assert.Equal(t, "after all", b.until("waiting", wire.StateFinished).Envelope.Output.Value, "row 15")
	for _, goal := range []string{"say: kept", "mute:", "say: after all"} {
		assert.Equal(t, 1, p.effectsOf(goal), goal)
	}
	assert.Equal(t, http.StatusOK, b.deliver("running", "mute:", nil), "known, and never run again")

	// Row 54: recorded and tombstoned, across another kill.
	require.Equal(t, http.StatusNoContent, b.call(http.MethodPost, wire.RunsPath+"/finished/recorded?attempt=1", nil, nil))
	b.kill()
	b = p.ready()
	assert.Equal(t, http.StatusOK, b.deliver("finished", "say: kept", nil))
	assert.Equal(t, 1, p.effectsOf("say: kept"))
}

// Row 18: a torn journal is another journal, said loudly.
func TestATornJournalIsAnotherJournal(t *testing.T) {
	p := newPlace(t)
	b := p.ready()
	b.accepted("run", "say: lost", wire.StateFinished)
	journal := b.boot.Journal
	b.kill()
	file := filepath.Join(p.Dir, "journal.db")
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(file, info.Size()/2))
	b = p.ready()
	assert.NotEqual(t, journal, b.boot.Journal)
	b.log.Await(t, `level=ERROR msg="the journal file was damaged`)
	var problem wire.Problem
	assert.Equal(t, http.StatusNotFound, b.call(http.MethodGet, wire.RunsPath+"/run?attempt=1", nil, &problem))
	assert.Equal(t, b.boot.Journal, problem.Journal)
}

// Row 20: an agent that dies in a turn ends it, 4000 closes until another answers, 4100 stays.
func TestAnAgentThatDiesIsReplacedAndDeliveryStays(t *testing.T) {
	p := newPlace(t)
	b := p.ready()
	former := b.acp()
	boot := b.boot.Boot
	b.accepted("run", "die:", wire.StateFinished)
	e := b.attempt("run").Envelope
	assert.Equal(t, wire.ReasonAgentCrashed, e.Reason, e.Message)
	b.log.Await(t, `acp: closed`)
	assert.True(t, refuses(t, former))
	b.log.AwaitNth(t, `acp: listening`, 2)
	b.challenge()
	assert.Equal(t, boot, b.boot.Boot, "the same boot")
	b.accepted("next", "say: back", wire.StateFinished)
	assert.Equal(t, "back", b.attempt("next").Envelope.Output.Value)
}

// Row 33: a cancel reaches the agent's turn and only that.
func TestACancelEndsTheTurn(t *testing.T) {
	b := newPlace(t).ready()
	b.accepted("run", "mute:", wire.StateRunning)
	assert.Equal(t, http.StatusAccepted, b.call(http.MethodDelete, wire.RunsPath+"/run?attempt=1", nil, nil))
	a := b.until("run", wire.StateFinished)
	assert.Equal(t, wire.OutcomeCancelled, a.Envelope.Outcome)
	assert.True(t, a.CancelRequested)
}

// Row 38: SIGTERM closes 4000, voids what waits, lets what runs end, hands over, exits 0.
func TestSIGTERMDrains(t *testing.T) {
	p := newPlace(t)
	b := p.ready()
	former := b.acp()
	gate := filepath.Join(t.TempDir(), "gate")
	b.accepted("run", "wait: "+gate+" ;; say: finished in time", wire.StateRunning)
	b.accepted("waiting", "say: never", wire.StateAccepted)
	b.signal(syscall.SIGTERM)
	b.until("waiting", wire.StateVoided)
	assert.True(t, refuses(t, former))
	var problem wire.Problem
	assert.Equal(t, http.StatusServiceUnavailable, b.deliver("more", "say: more", &problem))
	assert.Equal(t, wire.CodeDraining, problem.Code)
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	assert.Equal(t, "finished in time", b.until("run", wire.StateFinished).Envelope.Output.Value)
	for _, run := range []string{"run", "waiting"} {
		assert.Equal(t, http.StatusNoContent, b.call(http.MethodPost, wire.RunsPath+"/"+run+"/recorded?attempt=1", nil, nil))
	}
	assert.Equal(t, 0, b.code(), b.log.String())
	assert.Zero(t, p.effectsOf("say: never"))
}

// Row 38: a second SIGTERM cancels at once, and so does the end of the drain's time.
func TestWhatDoesNotEndIsCancelledByASecondSIGTERMOrTheLimit(t *testing.T) {
	for name, drain := range map[string]string{"second signal": "1h", "limit": "100ms"} {
		t.Run(name, func(t *testing.T) {
			b := newPlace(t).ready("--drain=" + drain)
			b.accepted("run", "mute:", wire.StateRunning)
			b.signal(syscall.SIGTERM)
			b.log.Await(t, "draining")
			if name == "second signal" {
				b.signal(syscall.SIGTERM)
			}
			a := b.until("run", wire.StateFinished)
			assert.Equal(t, wire.OutcomeCancelled, a.Envelope.Outcome)
			assert.Contains(t, a.Envelope.Message, "drained")
			b.call(http.MethodPost, wire.RunsPath+"/run/recorded?attempt=1", nil, nil)
			assert.Equal(t, 0, b.code(), b.log.String())
		})
	}
}

// Row 38: an agent that must be ended by SIGKILL takes the whole ladder; what came of its run is handed over all the same.
func TestADrainHandsOverTheRunOfADeafAgent(t *testing.T) {
	b := newPlace(t).ready("--drain=1ms")
	b.accepted("run", "say: half ;; deaf: ;; mute:", wire.StateRunning)
	b.signal(syscall.SIGTERM)
	a := b.until("run", wire.StateFinished)
	assert.Equal(t, wire.OutcomeCancelled, a.Envelope.Outcome)
	assert.Contains(t, a.Envelope.Warnings, "the agent did not stop when asked and was ended by force")
	assert.Equal(t, "half", a.Envelope.Output.Value)
	assert.Equal(t, http.StatusNoContent, b.call(http.MethodPost, wire.RunsPath+"/run/recorded?attempt=1", nil, nil))
	assert.Equal(t, 0, b.code(), b.log.String())
}

// I8; SPEC.md, What is protected: neither the agent's environment nor /proc gives the root secret to the agent's user.
func TestTheRootSecretIsOutOfTheAgentsReach(t *testing.T) {
	p := newPlace(t)
	const nobody = 65534
	if os.Geteuid() == 0 { // a harness and its agent of a user that is not root, as in a Pod
		p.credential = &syscall.Credential{Uid: nobody, Gid: nobody}
		root, err := os.MkdirTemp("", "hearth-pod-") //nolint:usetesting // t.TempDir is not open to another user
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, os.RemoveAll(root)) })
		require.NoError(t, os.Chown(root, nobody, nobody))
		p.Dir, p.effects = filepath.Join(root, "data"), filepath.Join(root, "effects")
		for _, dir := range []string{filepath.Dir(binary), filepath.Dir(p.command[0])} {
			require.NoError(t, os.Chmod(dir, 0o755)) //nolint:gosec // nobody starts what is in it
		}
	}
	p.env = []string{"KONVEYOR_ACP_SECRET_KEY=another-secret-of-an-older-platform"}
	b := p.ready()
	b.accepted("run", "env: HEARTH_DELIVERY_TOKEN ;; env: KONVEYOR_ACP_SECRET_KEY ;; env: HEARTH_QUEUE ;; env: POD_NAME", wire.StateFinished)
	e := b.attempt("run").Envelope
	require.NotNil(t, e.Output, e.Message)
	assert.NotContains(t, e.Output.Value, "secret")
	assert.Contains(t, e.Output.Value, p.Identity.PodName)

	pid := b.log.Await(t, `agent: ready.* pid=(\d+)`)
	environ, err := os.ReadFile("/proc/" + pid + "/environ")
	require.NoError(t, err)
	assert.NotContains(t, string(environ), token)
	assert.NotContains(t, string(environ), "another-secret")

	ours := "/proc/" + strconv.Itoa(b.cmd.Process.Pid) + "/"
	for _, file := range []string{"environ", "mem", "maps"} {
		cat := exec.CommandContext(t.Context(), "head", "-c", "1", ours+file)
		if p.credential == nil {
			continue
		}
		cat.SysProcAttr = &syscall.SysProcAttr{Credential: p.credential}
		out, err := cat.CombinedOutput()
		assert.Error(t, err, file)
		assert.Contains(t, string(out), "Permission denied", file)
	}
	if os.Geteuid() == 0 {
		assert.NotContains(t, b.log.String(), "running as root")
		asRoot := newPlace(t).ready()
		assert.Contains(t, asRoot.log.String(), "running as root")
	}
	files, err := filepath.Glob(filepath.Join(p.Dir, "*"))
	require.NoError(t, err)
	for _, f := range files {
		if info, err := os.Stat(f); err == nil && info.Mode().IsRegular() {
			content, err := os.ReadFile(f) //nolint:gosec // a test's own file
			require.NoError(t, err)
			assert.NotContains(t, string(content), token, f)
		}
	}
}

// A listener that broke is not open: the harness ends with the reason instead of standing there unready for ever.
func TestABrokenListenerOn4000EndsTheHarness(t *testing.T) {
	p := newPlace(t)
	h, log := assemble(t, "--acp-listen=127.0.0.1:0", "--data-dir="+p.Dir, "--", p.command[0])
	ended := make(chan error, 1)
	go func() { ended <- h.stand(t.Context(), make(chan os.Signal), func() error { return nil }) }()
	address := log.Await(t, `acp: listening"? addr=(\S+)`)
	breakListener(t, address)
	select {
	case err := <-ended:
		require.ErrorContains(t, err, "acp: serving on "+address+" ended")
	case <-time.After(patience):
		require.Fail(t, "it stands there unready", log.String())
	}
	assert.True(t, refuses(t, address))
}

// breakListener shuts this process's socket at an address down, as if the kernel had.
func breakListener(t *testing.T, address string) {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, f := range files {
		fd, err := strconv.Atoi(f.Name())
		require.NoError(t, err)
		at, err := unix.Getsockname(fd)
		if v4, ok := at.(*unix.SockaddrInet4); err == nil && ok && strings.HasSuffix(address, ":"+strconv.Itoa(v4.Port)) {
			require.NoError(t, unix.Shutdown(fd, unix.SHUT_RDWR))
			return
		}
	}
	require.Fail(t, "nothing listens at "+address)
}

// SPEC.md, Harness: three failed starts in a row, while no agent ever stood, end the harness with a message, and the delivery listener with it.
func TestAnAgentThatNeverStartsEndsTheHarness(t *testing.T) {
	p := newPlace(t)
	h, log := assemble(t, "--acp-listen=127.0.0.1:0", "--delivery-listen=127.0.0.1:0", "--metrics-listen=off", "--data-dir="+p.Dir, "--", "/bin/false")
	locked, err := h.lockJournal()
	require.NoError(t, err)
	who := &credentials{identity: p.Identity, keys: p.Keys}
	require.NoError(t, h.bind(t.Context(), who, nil))
	h.agents.pool, err = standing.New(standing.Config{
		Command: h.cfg.command, DataDir: h.cfg.dataDir, Concurrency: 1, Permissions: h.cfg.permissions, Log: h.log, Now: time.Now,
		FirstBackoff: time.Millisecond, MaxBackoff: time.Millisecond,
	})
	require.NoError(t, err)
	err = h.stand(t.Context(), make(chan os.Signal), func() error {
		return h.open(t.Context(), locked, who, nil)
	})
	require.NoError(t, locked.Close())
	require.ErrorContains(t, err, "3 times in a row")
	address := log.Await(t, `delivery: listening"? addr=(\S+)`)
	assert.True(t, refuses(t, address))
	assert.Contains(t, log.String(), "agent: start failed")
}

// What an agent wrote before it ended is in the harness's last line: as text, not as more lines of the log or a terminal's commands.
func TestTheHarnessEndsWithOneLine(t *testing.T) {
	p := newPlace(t)
	p.command = []string{"sh", "-c", `printf '\033[2Jfirst\nlevel=ERROR msg=forged\r\302\233second\n' >&2; exit 1`}
	b := p.start()
	require.Equal(t, 1, b.code())
	lines := strings.Split(strings.TrimSpace(b.log.String()), "\n")
	last := lines[len(lines)-1]
	assert.True(t, strings.HasPrefix(last, "harness: the agent could not be started 3 times in a row"), last)
	assert.Contains(t, last, "forged")
	assert.Contains(t, last, "second")
	assert.NotRegexp(t, "[[:cntrl:]\u0080-\u009f]", last)
}
