package router

import (
	"cmp"
	"context"
	"fmt"

	"github.com/coder/acp-go-sdk"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// maxAgentText bounds an agent's name and version, in bytes: both are told in every feed, which has to stay small.
const maxAgentText = 128

// ClientName is what the harness calls itself to agents.
const ClientName = "hearth"

// Agent is what an agent said of itself.
type Agent struct {
	Name    string
	Version string
	// Closes tells whether it understands session/close.
	Closes bool
	// Loads tells whether it understands session/load.
	Loads bool
	// Answer is its whole answer to initialize, as it was written.
	Answer jsontext.Value
}

// extensions are asked of agents that know them: goose then tells all tokens of a session, in notifications of its own.
var extensions = map[string]any{"goose": map[string]any{"customNotifications": true}}

// Initialize greets the agent with protocol version 1 and no capability of a client but extensions (SPEC.md, Harness). An agent
// that answers another version is refused.
func (c *Conn) Initialize(ctx context.Context, version string) (Agent, error) {
	raw, err := c.Call(ctx, acp.AgentMethodInitialize, acp.InitializeRequest{
		ProtocolVersion: acp.ProtocolVersionNumber, ClientCapabilities: acp.ClientCapabilities{Meta: extensions},
		ClientInfo: &acp.Implementation{Name: ClientName, Version: version},
	})
	if err != nil {
		return Agent{}, fmt.Errorf("initialize: %w", err)
	}
	var answer struct {
		ProtocolVersion jsontext.Value `json:"protocolVersion"`
		AgentInfo       struct {
			Name    string `json:"name"`
			Version string `json:"version"`
		} `json:"agentInfo"`
		AgentCapabilities struct {
			LoadSession         jsontext.Value `json:"loadSession"`
			SessionCapabilities struct {
				Close jsontext.Value `json:"close"`
			} `json:"sessionCapabilities"`
		} `json:"agentCapabilities"`
	}
	if err := json.Unmarshal(raw, &answer, Lenient); err != nil {
		return Agent{}, fmt.Errorf("initialize: the answer is not the protocol's: %w", err)
	}
	if got := string(answer.ProtocolVersion); got != fmt.Sprint(acp.ProtocolVersionNumber) {
		return Agent{}, fmt.Errorf("initialize: the agent answered protocolVersion %.32s; expected %d", cmp.Or(got, "(none)"), acp.ProtocolVersionNumber)
	}
	return Agent{
		Name: short(answer.AgentInfo.Name), Version: short(answer.AgentInfo.Version),
		Closes: answer.AgentCapabilities.SessionCapabilities.Close.Kind() == '{',
		Loads:  string(answer.AgentCapabilities.LoadSession) == "true", Answer: raw,
	}, nil
}

func short(s string) string { return wire.CutText(wire.CleanText(s), maxAgentText) }
