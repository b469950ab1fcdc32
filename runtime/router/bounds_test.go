package router

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

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

// An agent that does not read gets no more of clients than fits, which is refused before it is copied, and a goal still has room.
func TestClientsLeaveRoomForAGoal(t *testing.T) {
	p := dial(t, 0)
	const room = 1 << 20
	p.conn.out.limit, p.conn.out.others = 3*room, room
	big, bad := Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"m","params":"`+strings.Repeat("x", room-64)+`"}`), Strict)
	require.Nil(t, bad)
	answered := func(*Frame, error) {}
	_, err := p.conn.Forward(&big, nil, answered)
	require.NoError(t, err)
	_, err = p.conn.Forward(&big, nil, answered)
	require.ErrorIs(t, err, ErrBacklog)
	require.ErrorIs(t, p.conn.ForwardNotification(&big, nil), ErrBacklog)
	perCall := testing.AllocsPerRun(10, func() { _, _ = p.conn.Forward(&big, nil, answered) })
	assert.Zero(t, perCall)
	_, err = p.conn.Send("session/prompt", strings.Repeat("x", room/4))
	require.NoError(t, err)
	assert.NotEmpty(t, p.read())
	assert.NotEmpty(t, p.read())
	require.Eventually(t, func() bool {
		_, err := p.conn.Forward(&big, nil, answered)
		return err == nil
	}, patience, time.Millisecond, "once the agent reads, there is room")
	assert.NotEmpty(t, p.read())
}
