package router

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What an agent calls itself is told to everybody who asks; it must not make the feed too long to be read.
func TestAnAgentsNameIsBounded(t *testing.T) {
	p := dial(t, 0)
	got := make(chan Agent, 1)
	go func() {
		agent, err := p.conn.Initialize(context.Background(), "v")
		assert.NoError(t, err)
		got <- agent
	}()
	p.write(answer(p.read(), `{"protocolVersion":1,"agentInfo":{"name":"`+strings.Repeat("é", 1<<20)+`","version":"1\u0000\ud800"}}`))
	agent := <-got
	assert.Equal(t, strings.Repeat("é", maxAgentText/2), agent.Name)
	assert.Equal(t, "1\uFFFD\uFFFD", agent.Version)
}

func TestTheTextOfAnAgentsErrorIsBounded(t *testing.T) {
	p := dial(t, 0)
	call, err := p.conn.Send("m", 1)
	require.NoError(t, err)
	p.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":1,"message":"%s"}}`, idOf(p.read()), strings.Repeat("x", 1<<20)))
	<-call.Done()
	_, err = call.Result()
	var rpc *RPCError
	require.ErrorAs(t, err, &rpc)
	assert.Len(t, rpc.Message, maxMessage)
}
