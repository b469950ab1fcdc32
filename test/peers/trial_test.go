package peers

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// agentInfo is how an agent introduces itself.
type agentInfo struct {
	ProtocolVersion int `json:"protocolVersion"`
	AgentInfo       struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	} `json:"agentInfo"`
}

type object = map[string]any

var clientHello = object{"protocolVersion": 1, "clientCapabilities": object{}, "clientInfo": object{"name": "peer", "version": "1"}}

func (p *peer) hello() (agentInfo, error) {
	var info agentInfo
	err := p.call("initialize", clientHello, &info)
	if err == nil && info.ProtocolVersion != 1 {
		err = fmt.Errorf("protocol version %d", info.ProtocolVersion)
	}
	return info, err
}

func (p *peer) session() (string, error) {
	var made struct {
		SessionID string `json:"sessionId"`
	}
	err := p.call("session/new", object{"cwd": "/tmp", "mcpServers": []string{}}, &made)
	if err == nil && made.SessionID == "" {
		err = errors.New("no sessionId")
	}
	return made.SessionID, err
}

func promptOf(session, text string) object {
	return object{"sessionId": session, "prompt": []object{{"type": "text", "text": text}}}
}

func (p *peer) stops(call int, reason string) error {
	var stopped struct {
		StopReason string `json:"stopReason"`
	}
	if err := p.end(call, &stopped); err != nil {
		return err
	}
	if stopped.StopReason != reason {
		return fmt.Errorf("stop reason %s", stopped.StopReason)
	}
	return nil
}

func (p *peer) prompt(session, text string) error {
	return p.stops(p.begin("session/prompt", promptOf(session, text)), "end_turn")
}

// choose waits for the next question about a session and answers it with the option of a kind.
func (p *peer) choose(session, kind string) error {
	e, err := p.await(func(e event) bool {
		return e.Question != "" && !p.chosen[e.Question] && strings.Contains(string(e.Params), session)
	})
	if err != nil {
		return fmt.Errorf("a permission question: %w", err)
	}
	p.chosen[e.Question] = true
	option, err := optionOf(e, kind)
	if err != nil {
		return err
	}
	p.answer(e.Question, option)
	return nil
}

// optionOf is the option of a kind in a question.
func optionOf(e event, kind string) (string, error) {
	var asked struct {
		Options []struct {
			OptionID string `json:"optionId"`
			Kind     string `json:"kind"`
		} `json:"options"`
	}
	if err := json.Unmarshal(e.Params, &asked); err != nil {
		return "", err
	}
	for _, o := range asked.Options {
		if o.Kind == kind {
			return o.OptionID, nil
		}
	}
	return "", fmt.Errorf("no option of kind %s in %s", kind, e.Params)
}

// trial is one client of one agent: each case goes on where the last one ended.
type trial struct {
	h       *harness
	agent   agent
	kind    kind
	first   *peer
	second  *peer
	info    agentInfo
	session string
}

// cases are the columns of the page.
var cases = []struct {
	name string
	run  func(*trial) error
}{
	{"initialize", (*trial).initialize},
	{"new", (*trial).open},
	{"prompt", (*trial).says},
	{"tool", (*trial).tool},
	{"permission", (*trial).permission},
	{"cancel", (*trial).cancel},
	{"load", (*trial).load},
	{"two clients", (*trial).two},
}

func (x *trial) initialize() (err error) {
	x.first = x.kind.dial(x.h, steerKey)
	x.info, err = x.first.hello()
	return err
}

func (x *trial) open() (err error) {
	x.session, err = x.first.session()
	return err
}

func (x *trial) says() error {
	if err := x.first.prompt(x.session, "say: hello from the agent"); err != nil {
		return err
	}
	return x.first.sees(x.session, "agent_message_chunk", "hello from the agent")
}

// tool calls one, which is allowed where the agent asks.
func (x *trial) tool() error {
	call := x.first.begin("session/prompt", promptOf(x.session, x.agent.tool))
	if x.agent.tool == x.agent.permit {
		if err := x.first.choose(x.session, "allow_once"); err != nil {
			return err
		}
	}
	if err := x.first.stops(call, "end_turn"); err != nil {
		return err
	}
	_, err := x.first.await(func(e event) bool {
		var n update
		return n.decode(e) && n.SessionID == x.session && n.Update.SessionUpdate == "tool_call_update" && n.Update.Status == "completed"
	})
	return err
}

// permission is refused, and the turn ends.
func (x *trial) permission() error {
	call := x.first.begin("session/prompt", promptOf(x.session, x.agent.permit))
	if err := x.first.choose(x.session, "reject_once"); err != nil {
		return err
	}
	return x.first.stops(call, "end_turn")
}

func (x *trial) cancel() error {
	call := x.first.begin("session/prompt", promptOf(x.session, x.agent.endless))
	if err := x.first.sees(x.session, "agent_message_chunk", "begun"); err != nil {
		return err
	}
	x.first.notify("session/cancel", object{"sessionId": x.session})
	return x.first.stops(call, "cancelled")
}

// load is another connection that is shown what was said.
func (x *trial) load() error {
	x.second = x.kind.dial(x.h, steerKey)
	if _, err := x.second.hello(); err != nil {
		return err
	}
	if err := x.second.call("session/load", object{"sessionId": x.session, "cwd": "/tmp", "mcpServers": []string{}}, nil); err != nil {
		return err
	}
	if err := x.second.sees(x.session, "user_message_chunk", "say: hello from the agent"); err != nil {
		return err
	}
	return x.second.sees(x.session, "agent_message_chunk", "hello from the agent")
}

// two see the same live, whoever prompts.
func (x *trial) two() error {
	for i, p := range []*peer{x.first, x.second} {
		other := []*peer{x.second, x.first}[i]
		text := fmt.Sprintf("both see this %d", i)
		if err := p.prompt(x.session, "say: "+text); err != nil {
			return err
		}
		if err := other.sees(x.session, "agent_message_chunk", text); err != nil {
			return err
		}
	}
	return nil
}
