package main

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// assembled is a harness without delivery, and its log.
func assembled(t *testing.T) (*harness, *lines) {
	t.Helper()
	p, log := newPlace(t), newLines()
	cfg, err := parseServe([]string{"--acp-listen=127.0.0.1:0", "--metrics-listen=off", "--data-dir=" + p.dir, "--", p.command[0]}, nil)
	require.NoError(t, err)
	told := slog.New(slog.NewTextHandler(log, nil))
	h := newHarness(cfg, told, newSignals(t.Context(), nil, told))
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
	ours := regexp.MustCompile(`init (github.com/hearthdev/hearth/\S+|main) .* (\d+) bytes`).FindAllStringSubmatch(trace.String(), -1)
	require.NotEmpty(t, ours, trace.String())
	const few = 8 << 10
	for _, m := range ours {
		bytes, err := strconv.Atoi(m[2])
		require.NoError(t, err)
		assert.Less(t, bytes, few, "%s allocates that much before main", m[1])
	}
}

// SPEC.md, Harness: the agent is started beside what else has to be open before port 4000, and port 4000 is last all the same.
func TestAnAgentThatAnswersFirstWaitsForTheRest(t *testing.T) {
	h, log := assembled(t)
	signals, rest, ended := make(chan os.Signal, 2), make(chan error), make(chan error, 1)
	go func() { ended <- h.stand(t.Context(), signals, func() error { return <-rest }) }()
	log.await(t, "agent: ready")
	assert.Never(t, func() bool { return h.door.endpoint.Addr() != "" }, 50*time.Millisecond, tick, "nothing but the agent is open")
	rest <- nil
	assert.False(t, refuses(t, log.await(t, `acp: listening"? addr=(\S+)`)))
	signals <- os.Interrupt
	require.NoError(t, <-ended, log.String())
}

// SPEC.md, Harness: what cannot be opened ends the harness, and the agent that was started beside it; port 4000 is never open.
func TestWhatCannotBeOpenedEndsTheAgentToo(t *testing.T) {
	h, log := assembled(t)
	broken, pid := errors.New("the journal cannot be read"), ""
	err := h.stand(t.Context(), make(chan os.Signal), func() error {
		pid = log.await(t, `agent: ready.* pid=(\d+)`)
		return broken
	})
	require.ErrorIs(t, err, broken)
	assert.NotContains(t, log.String(), "acp: listening")
	assert.NoDirExists(t, "/proc/"+pid, "the agent has ended")
}
