package turn

import (
	"path/filepath"
	"slices"
	"strings"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// What is known of agents by name. The name is agentInfo.name of the agent's answer to initialize.

// profile is what is known of one agent.
type profile struct {
	// promptBytes is the longest prompt message it takes; more makes it drop the connection.
	promptBytes int
	// asksIn are the session modes in which it asks for permission; nil: it has no such modes.
	asksIn []string
	// notices are texts of its own that arrive as if the model had said them, with the stop reason end_turn.
	notices []notice
}

// notice recognises a text by how the last message begins and ends.
type notice struct {
	reason         wire.Reason
	prefix, suffix string
	// alone: the prefix is proof enough. Otherwise the suffix must fit too, or no model call may have been measured, because
	// a model may well begin an answer with such words.
	alone bool
}

// gooseUpdate is goose's own notification, beside session/update, of all tokens of a session: the usage of its answers is the last
// model call's. It is sent to clients that say so when they greet it.
const gooseUpdate = "_goose/unstable/session/update"

const (
	defaultPromptBytes = 64 << 20
	goosePromptBytes   = 16 << 20
)

// common are the notices looked for in every agent's text.
var common = []notice{
	{reason: wire.ReasonLimitReached, prefix: "I've reached the maximum number of actions", alone: true},
	{reason: wire.ReasonAgentError, prefix: "Network error", suffix: "Please resend your message to try again."},
	{reason: wire.ReasonAgentError, prefix: "Ran into this error", suffix: "Please retry if you think this is a transient or recoverable error."},
	{reason: wire.ReasonAgentError, prefix: "Server error"},
	{reason: wire.ReasonAgentError, prefix: "Authentication error"},
	{reason: wire.ReasonAgentError, prefix: "Rate limit"},
	{reason: wire.ReasonAgentError, prefix: "Provider not set"},
}

var profiles = map[string]profile{
	// goose 1.50 to 1.52, as seen and as found in its binary.
	"goose": {
		promptBytes: goosePromptBytes,
		asksIn:      []string{"approve", "smart_approve"},
		notices: []notice{
			{reason: wire.ReasonAgentError, prefix: "Ran into this error trying to compact:", alone: true},
			{reason: wire.ReasonAgentError, prefix: "The model returned an empty response.", suffix: "Please resend your message to continue."},
			{reason: wire.ReasonAgentError, prefix: "Please check your account with your provider to add more credits", suffix: "then resend your message to continue."},
			{reason: wire.ReasonAgentError, prefix: "Please add credits to your account", suffix: "then resend your message to continue."},
			{reason: wire.ReasonRefused, prefix: "The provider refused this request.", suffix: "resending this conversation is likely to be refused again."},
		},
	},
}

// PromptBytes is the longest prompt message that the agent of this name takes.
func PromptBytes(agent string) int { return profileOf(agent).promptBytes }

func profileOf(agent string) profile {
	p := profiles[agent]
	if p.promptBytes == 0 {
		p.promptBytes = defaultPromptBytes
	}
	p.notices = slices.Concat(p.notices, common)
	return p
}

// recognise finds the notice that a last message is, if it is one.
func (p profile) recognise(message string, measured bool) (notice, bool) {
	text := strings.TrimSpace(strings.ReplaceAll(message, "’", "'"))
	for _, n := range p.notices {
		if !strings.HasPrefix(text, n.prefix) {
			continue
		}
		if n.alone || !measured || (n.suffix != "" && strings.HasSuffix(text, n.suffix)) {
			return n, true
		}
	}
	return notice{}, false
}

// Environment is what an agent needs in its environment for its permission questions to be asked at all: goose's default mode
// never asks, so it is set to ask and the policy answers, once each time. What the user has set is left alone.
func Environment(command string, env []string) []string {
	const variable = "GOOSE_MODE="
	isSet := slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, variable) })
	if filepath.Base(command) != "goose" || isSet {
		return nil
	}
	return []string{variable + "approve"}
}
