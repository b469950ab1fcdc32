package main

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/hearthdev/hearth/challenge"
	"github.com/hearthdev/hearth/delivery/journal"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/process"
)

// assembled is a harness without delivery, and its log.
func assembled(t *testing.T) (*harness, *process.Output) {
	t.Helper()
	p := newPlace(t)
	return assemble(t, "--acp-listen=127.0.0.1:0", "--delivery-listen=127.0.0.1:0", "--metrics-listen=off", "--data-dir="+p.Dir, "--", p.command[0])
}

// assemble makes a harness of these arguments as serve does, up to where anything is bound or started.
func assemble(t *testing.T, args ...string) (*harness, *process.Output) {
	t.Helper()
	log := process.NewOutput()
	cfg, err := parseServe(args, nil)
	require.NoError(t, err)
	h := newHarness(cfg, slog.New(slog.NewTextHandler(log, nil)))
	h.heard = newSignals(t.Context(), nil, h.log)
	require.NoError(t, h.assemble(t.Context(), nil, nil))
	return h, log
}

// How long a harness takes to start is part of how long a Pod takes to be ready (P5): what its packages need later, such as compiled
// regular expressions, they make later.
func TestNothingIsPreparedBeforeMain(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), binary, "version")
	cmd.Env = []string{"GODEBUG=inittrace=1"}
	var trace strings.Builder
	cmd.Stderr = &trace
	require.NoError(t, cmd.Run())
	require.Regexp(t, `init \S+ .* \d+ bytes`, trace.String(), "packages tell what they do")
	const few = 8 << 10
	for _, m := range regexp.MustCompile(`init (github.com/hearthdev/hearth/\S+|main) .* (\d+) bytes`).FindAllStringSubmatch(trace.String(), -1) {
		bytes, err := strconv.Atoi(m[2])
		require.NoError(t, err)
		assert.Less(t, bytes, few, "%s allocates that much before main", m[1])
	}
}

// SPEC.md, Harness: the agent is started beside what else has to be open before port 4000, and port 4000 is last all the same. An agent that
// has ended by then is started again, and nobody heard of it.
func TestAnAgentThatAnswersFirstWaitsForTheRest(t *testing.T) {
	h, log := assembled(t)
	signals, rest, ended := make(chan os.Signal, 2), make(chan error), make(chan error, 1)
	go func() { ended <- h.stand(t.Context(), signals, func() error { return <-rest }) }()
	pid, err := strconv.Atoi(log.Await(t, `agent: ready.* pid=(\d+)`))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	log.Await(t, "agent: ended")
	log.AwaitNth(t, "agent: ready", 2)
	assert.NotContains(t, log.String(), "acp: ", "the first would have opened it before it ended")
	rest <- nil
	assert.False(t, refuses(t, log.Await(t, `acp: listening"? addr=(\S+)`)))
	signals <- os.Interrupt
	require.NoError(t, <-ended, log.String())
}

// SPEC.md, Harness: no agent can take the ports that are served beside it: they are bound before it is started, however long the journal
// takes to open.
func TestAnAgentCannotTakeThePortsOfItsHarness(t *testing.T) {
	for _, flag := range []string{"--delivery-listen", "--metrics-listen"} {
		t.Run(flag, func(t *testing.T) {
			free, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
			require.NoError(t, err)
			address := free.Addr().String()
			require.NoError(t, free.Close())
			p := newPlace(t)
			p.slowJournal()
			p.command = append(p.command, "serve", address)
			p.start(flag+"="+address).log.Await(t, address+": bind: address already in use")
		})
	}
}

// slowJournal has the next boot wait for its journal until somebody writes to that file; then it cannot be read.
func (p *place) slowJournal() (file string) {
	p.t.Helper()
	file = filepath.Join(p.Dir, "journal.db")
	require.NoError(p.t, unix.Mkfifo(file, 0o600))
	return file
}

// SPEC.md, Harness: the directory is locked as long as an agent lives in it, whatever ends the harness.
func TestTheLockOutlivesTheAgent(t *testing.T) {
	for name, broken := range map[string]bool{"a signal": false, "a journal that cannot be read": true} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			signs := t.TempDir()
			sign := func(name string) {
				require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(signs, name)); return err == nil }, patience, tick)
			}
			p.command = []string{"sh", "-c", `cd "$0"; trap 'touch asked' TERM; touch up; while [ ! -e gone ]; do sleep 0.02; done`, signs}
			file := ""
			if broken {
				file = p.slowJournal()
			}
			b := p.start()
			sign("up")
			if broken {
				f, err := os.OpenFile(file, os.O_WRONLY, 0) //nolint:gosec // a test's own file
				require.NoError(t, err)
				require.NoError(t, f.Close())
			} else {
				b.log.Await(t, "delivery: listening")
				b.signal(syscall.SIGTERM)
			}
			sign("asked")
			second := p.start()
			assert.Equal(t, 1, second.code())
			assert.Contains(t, second.log.String(), "is held by another harness")
			require.NoError(t, os.WriteFile(filepath.Join(signs, "gone"), nil, 0o600))
			b.code()
		})
	}
}

// Row 15: what the last boot accepted is not started by one that cannot be opened: it would be killed with its agent.
func TestABootThatCannotBeOpenedStartsNothing(t *testing.T) {
	h, log := assembled(t)
	past := journal.Config{Dir: h.cfg.dataDir, Now: time.Now}
	j, err := journal.Open(past)
	require.NoError(t, err)
	_, err = j.Accept(wire.DeliveryRequest{APIVersion: wire.APIVersion, Run: wire.RunRef{Namespace: "team", Name: "review", UID: "run"}, Attempt: 1, Goal: "mute:"})
	require.NoError(t, err)
	require.NoError(t, j.Close())

	locked, err := h.lockJournal()
	require.NoError(t, err)
	keys, err := challenge.Derive([]byte(token), podUID)
	require.NoError(t, err)
	who := &credentials{identity: wire.Identity{Namespace: "team", PodName: "pod", PodUID: podUID}, keys: keys}
	require.NoError(t, h.bind(t.Context(), who, nil))
	broken := errors.New("something else cannot be opened")
	var told *toldOf
	err = h.stand(t.Context(), make(chan os.Signal), func() error {
		pid, err := strconv.Atoi(log.Await(t, `agent: ready.* pid=(\d+)`))
		require.NoError(t, err)
		require.NoError(t, h.open(t.Context(), locked, who, nil))
		told = &toldOf{deliverer: h.server, closing: func() { // an agent that is announced at all is announced before its end
			assert.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
			log.Await(t, "agent: ended")
		}}
		h.server = told
		return broken
	})
	require.ErrorIs(t, err, broken)
	require.NoError(t, locked.Close())
	assert.Zero(t, told.agents.Load(), "an agent was announced that was to be ended")
	assert.NotContains(t, log.String(), "msg=started")

	j, err = journal.Open(past)
	require.NoError(t, err)
	e, err := j.Get(journal.Key{RunUID: "run", Attempt: 1})
	require.NoError(t, err)
	assert.Equal(t, wire.StateAccepted, e.State)
	require.NoError(t, j.Close())
}

// toldOf counts what is told of agents.
type toldOf struct {
	deliverer
	agents  atomic.Int32
	closing func()
}

func (d *toldOf) AgentChanged() { d.agents.Add(1); d.deliverer.AgentChanged() }
func (d *toldOf) Close()        { d.closing(); d.deliverer.Close() }

// SPEC.md, Harness: what cannot be opened ends the harness, and the agent that was started beside it; port 4000 is never open.
func TestWhatCannotBeOpenedEndsTheAgentToo(t *testing.T) {
	h, log := assembled(t)
	broken, pid := errors.New("the journal cannot be read"), ""
	err := h.stand(t.Context(), make(chan os.Signal), func() error {
		pid = log.Await(t, `agent: ready.* pid=(\d+)`)
		return broken
	})
	require.ErrorIs(t, err, broken)
	assert.NotContains(t, log.String(), "acp: listening")
	assert.NoDirExists(t, "/proc/"+pid, "the agent has ended")
}
