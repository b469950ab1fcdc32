package main

import (
	"net"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/agent/agenttest"
)

// SPEC.md, Agents by endpoint: 4000 is open while the server beside the harness answers, and 4100 says why nothing is taken meanwhile.
func TestAHarnessBesideAnAgentsServer(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close())
	p := newPlace(t)
	server := func() *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), agenttest.Build(t), "serve", address)
		cmd.Env = []string{"AGENT_EFFECTS_FILE=" + p.effects, "GOOSE_SERVER__SECRET_KEY=secret-goose"}
		require.NoError(t, cmd.Start())
		return cmd
	}
	p.command = nil
	p.env = []string{"HEARTH_ENDPOINT=ws://" + address + "/acp", "GOOSE_SERVER__SECRET_KEY=secret-goose"}
	b := p.start()
	b.challenge()
	var problem wire.Problem
	assert.Equal(t, 503, b.deliver("early", "say: x", &problem))
	assert.Equal(t, wire.CodeAgentUnavailable, problem.Code)
	assert.NotContains(t, b.log.String(), "acp: listening")

	first := server()
	acp := b.acp()
	require.Eventually(t, func() bool { return b.deliver("runs", "say: hello", nil) == 202 }, patience, tick)
	assert.Equal(t, "hello", b.until("runs", wire.StateFinished).Envelope.Output.Value)

	require.NoError(t, first.Process.Kill())
	_ = first.Wait()
	require.Eventually(t, func() bool { return refuses(t, acp) }, patience, tick, "closed while nobody answers")
	second := server()
	require.Eventually(t, func() bool { return b.deliver("again", "say: back", nil) == 202 }, patience, tick)
	assert.Equal(t, "back", b.until("again", wire.StateFinished).Envelope.Output.Value)
	assert.NotContains(t, b.log.String(), "secret-")
	b.kill()
	assert.NoError(t, second.Process.Kill(), "it is not the harness's, and lives on")
	_ = second.Wait()
}
