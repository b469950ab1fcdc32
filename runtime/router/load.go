package router

import (
	"context"
	"fmt"

	"github.com/coder/acp-go-sdk"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// LoadSession makes the agent take up a session that it knew before. What it repeats of it until it answers is nobody's. The
// errors are those of Conn.Call; an *RPCError says that the agent does not know the session any more.
func (c *Conn) LoadSession(ctx context.Context, id, cwd string) (*Session, error) {
	s := &Session{ID: id, conn: c}
	_, err := c.wait(ctx, func() (*Call, error) {
		params := acp.LoadSessionRequest{SessionId: acp.SessionId(id), Cwd: cwd, McpServers: []acp.McpServer{}}
		return c.send(acp.AgentMethodSessionLoad, params, func(result jsontext.Value) { c.loaded(s, result) })
	})
	if err != nil {
		return nil, fmt.Errorf("session/load: %w", err)
	}
	return s, nil
}

// loaded registers the session before anything after its answer is read.
func (c *Conn) loaded(s *Session, result jsontext.Value) {
	var answer struct {
		Modes struct {
			CurrentModeID string `json:"currentModeId"`
		} `json:"modes"`
	}
	if json.Unmarshal(result, &answer, Lenient) == nil {
		s.Mode = answer.Modes.CurrentModeID
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.early, s.ID)
	c.sessions[s.ID] = s
}

// Busy tells whether a prompt of a session is under way, whoever sent it.
func (c *Conn) Busy(session string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, call := range c.calls {
		if call.session == session && call.method == acp.AgentMethodSessionPrompt {
			return true
		}
	}
	return false
}
