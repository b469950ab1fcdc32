package peers

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// find waits until a delivered run's session is in the list, and returns its id.
func (p *peer) find(run string) string {
	p.t.Helper()
	for range int(patience / tick) {
		var listed struct {
			Sessions []struct {
				SessionID string          `json:"sessionId"`
				Meta      json.RawMessage `json:"_meta"`
			} `json:"sessions"`
		}
		require.NoError(p.t, p.call("session/list", object{}, &listed))
		for _, s := range listed.Sessions {
			if strings.Contains(string(s.Meta), `"`+run+`"`) {
				return s.SessionID
			}
		}
	}
	require.Fail(p.t, "the run's session is not listed")
	return ""
}

// R50–R54: two TypeScript clients, one by WebSocket and one by HTTP, see a delivered run of real goose from its first token. One
// answers its permission question, the other is told, and the run ends with its evidence.
func TestTwoClientsWatchADeliveredRunAndOneAnswersItsQuestion(t *testing.T) {
	t.Parallel()
	h := startHarness(t, agents[0])
	watchers := []*peer{kinds[0].dial(h, steerKey), kinds[1].dial(h, steerKey)}
	for _, p := range watchers {
		_, err := p.hello()
		require.NoError(t, err)
	}
	key := h.deliver("review-17", "gate: watched\nsay: the first words\nshell: echo what-the-tool-said\nsay: all is well\nusage: 1000 50")
	session := watchers[0].find("review-17")
	for _, p := range watchers {
		require.NoError(t, p.call("session/load", object{"sessionId": session, "cwd": "/tmp", "mcpServers": []string{}}, nil))
		assert.Empty(t, p.words(session, "agent_message_chunk"), "nothing was said yet")
	}
	h.model.Open("watched")

	var questions [2]event
	for i, p := range watchers {
		require.NoError(t, p.sees(session, "agent_message_chunk", "the first words"))
		var err error
		questions[i], err = p.await(func(e event) bool { return e.Question != "" })
		require.NoError(t, err, "everybody who may answer is asked")
	}
	option, err := optionOf(questions[0], "allow_once")
	require.NoError(t, err)
	watchers[0].answer(questions[0].Question, option)
	_, err = watchers[1].await(func(e event) bool { return e.Settled == questions[1].Question })
	require.NoError(t, err, "the other is told that the question is settled")

	envelope := h.result(key)
	assert.Equal(t, wire.OutcomeSucceeded, envelope.Outcome, envelope.Message)
	require.NotNil(t, envelope.Output)
	assert.Contains(t, envelope.Output.Value, "all is well")
	require.NotNil(t, envelope.Usage)
	assert.Greater(t, *envelope.Usage.TotalTokens, int64(1050))
	for _, p := range watchers {
		require.NoError(t, p.sees(session, "agent_message_chunk", "all is well"))
		assert.Contains(t, p.words(session, "agent_message_chunk"), "what-the-tool-said")
	}
	assert.Equal(t, watchers[0].words(session, "agent_message_chunk"), watchers[1].words(session, "agent_message_chunk"), "both saw the same")
}
