package router

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/coder/acp-go-sdk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sdkAgent is an agent built by strangers: acp-go-sdk's own connection is the other side of the wire.
type sdkAgent struct {
	acp.Agent
	conn *acp.AgentSideConnection
}

func (a *sdkAgent) Initialize(context.Context, acp.InitializeRequest) (acp.InitializeResponse, error) {
	return acp.InitializeResponse{ProtocolVersion: acp.ProtocolVersionNumber, AgentInfo: &acp.Implementation{Name: "sdk", Version: "1"}}, nil
}

func (a *sdkAgent) NewSession(_ context.Context, r acp.NewSessionRequest) (acp.NewSessionResponse, error) {
	return acp.NewSessionResponse{SessionId: acp.SessionId("in " + r.Cwd)}, nil
}

func (a *sdkAgent) Prompt(ctx context.Context, r acp.PromptRequest) (acp.PromptResponse, error) {
	answer, err := a.conn.RequestPermission(ctx, acp.RequestPermissionRequest{SessionId: r.SessionId, Options: []acp.PermissionOption{
		{Kind: acp.PermissionOptionKindRejectOnce, OptionId: "no", Name: "No"},
	}})
	if err != nil {
		return acp.PromptResponse{}, err
	}
	text := "you said " + r.Prompt[0].Text.Text + ", permission " + string(answer.Outcome.Selected.OptionId)
	if err := a.conn.SessionUpdate(ctx, acp.SessionNotification{SessionId: r.SessionId, Update: acp.UpdateAgentMessageText(text)}); err != nil {
		return acp.PromptResponse{}, err
	}
	return acp.PromptResponse{StopReason: acp.StopReasonEndTurn}, nil
}

func TestTheConnectionOfAcpGoSdkUnderstandsUs(t *testing.T) {
	toAgentR, toAgentW := io.Pipe()
	fromAgentR, fromAgentW := io.Pipe()
	agent := &sdkAgent{}
	agent.conn = acp.NewAgentSideConnection(agent, fromAgentW, toAgentR)
	conn := Open(Config{In: fromAgentR, Out: toAgentW, Cause: func() error { return errGone }, Now: time.Now})
	t.Cleanup(func() {
		conn.Close()
		<-conn.Done()
		<-agent.conn.Done()
	})
	who, err := conn.Initialize(t.Context(), "v")
	require.NoError(t, err)
	assert.Equal(t, "sdk", who.Name)
	s, err := conn.NewSession(t.Context(), "/w")
	require.NoError(t, err)
	assert.Equal(t, "in /w", s.ID)
	sink := newNotes()
	s.Attach(sink)
	call, err := s.Prompt("hello")
	require.NoError(t, err)
	<-sink.news
	require.NoError(t, sink.requests[0].Answer(acp.RequestPermissionResponse{Outcome: acp.NewRequestPermissionOutcomeSelected("no")}))
	<-call.Done()
	result, err := call.Result()
	require.NoError(t, err)
	assert.JSONEq(t, `{"stopReason":"end_turn"}`, string(result))
	assert.Equal(t, "session/update you said hello, permission no", sink.all()[1])
}
