package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/coder/acp-go-sdk"
)

// session is one conversation; at most one prompt is played in it at a time.
type session struct {
	id, cwd string

	mu        sync.Mutex
	cancelled chan struct{}
	past      memory
	prompts   int
	repaired  string // what the next prompt is answered with, whatever it says
}

func (s *session) begin() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancelled = make(chan struct{})
	return s.cancelled
}

func (s *session) cancel() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancelled != nil {
		close(s.cancelled)
		s.cancelled = nil
	}
}

func (a *agent) handle(f frame) {
	switch f.Method {
	case acp.AgentMethodInitialize:
		a.initialize(f)
	case acp.AgentMethodSessionNew:
		a.newSession(f)
	case acp.AgentMethodSessionLoad:
		a.loadSession(f)
	case acp.AgentMethodSessionPrompt:
		var p struct {
			Meta      json.RawMessage `json:"_meta"`
			SessionID string          `json:"sessionId"`
			Prompt    []struct {
				Text string `json:"text"`
			} `json:"prompt"`
		}
		must(json.Unmarshal(f.Params, &p))
		s := a.sessions[p.SessionID]
		if s == nil || len(p.Prompt) == 0 {
			a.fail(f.ID, -32602, "no such session or an empty prompt")
			return
		}
		goal := p.Prompt[len(p.Prompt)-1].Text
		s.prompts++
		record(s, goal, len(p.Prompt))
		s.keep(goal)
		t := &turn{agent: a, session: s, id: f.ID, goal: goal, meta: string(p.Meta), stop: acp.StopReasonEndTurn, cancelled: s.begin()}
		for _, b := range p.Prompt {
			t.blocks = append(t.blocks, b.Text)
		}
		t.number = s.prompts
		go func() {
			t.play()
			t.over()
		}()
	case acp.AgentMethodSessionCancel:
		var p acp.CancelNotification
		must(json.Unmarshal(f.Params, &p))
		if s := a.sessions[string(p.SessionId)]; s != nil {
			s.cancel()
		}
	case acp.AgentMethodSessionClose:
		a.reply(f.ID, struct{}{})
	default:
		if f.ID != nil {
			a.fail(f.ID, -32601, "method not found: "+f.Method)
		}
	}
}

func (a *agent) initialize(f frame) {
	if os.Getenv(envStart) == "mute" {
		return
	}
	version, err := strconv.Atoi(os.Getenv(envProtocol))
	if err != nil {
		version = acp.ProtocolVersionNumber
	}
	name := os.Getenv(envName)
	if name == "" {
		name = "scripted"
	}
	a.reply(f.ID, map[string]any{
		"protocolVersion":   version,
		"agentCapabilities": map[string]any{"loadSession": remembers(), "sessionCapabilities": map[string]any{"close": map[string]any{}}},
		"agentInfo":         map[string]any{"name": name, "version": "1.0.0"},
		"authMethods":       []any{},
	})
}

func (a *agent) newSession(f frame) {
	if os.Getenv(envSessions) == "fail" {
		a.fail(f.ID, -32000, "authentication required")
		return
	}
	var p acp.NewSessionRequest
	must(json.Unmarshal(f.Params, &p))
	s := &session{id: fmt.Sprintf("s%d-%s-%d", os.Getpid(), strconv.FormatInt(born.UnixNano(), 36), len(a.sessions)+1), cwd: p.Cwd}
	a.sessions[s.id] = s
	early, _ := strconv.Atoi(os.Getenv(envEarly))
	for i := range early {
		a.update(s.id, acp.UpdateAgentMessageText(fmt.Sprintf("early%d ", i+1)))
	}
	a.reply(f.ID, map[string]any{"sessionId": s.id})
}

func (a *agent) update(session string, u acp.SessionUpdate) {
	a.send(frame{Method: acp.ClientMethodSessionUpdate, Params: encode(acp.SessionNotification{SessionId: acp.SessionId(session), Update: u})})
}

// born tells agents apart whose process numbers are the same, because each is alone in its container.
var born = time.Now()

// record is the side effect that tests count: one line per started prompt.
func record(s *session, goal string, blocks int) {
	note(envEffects, map[string]any{"pid": os.Getpid(), "session": s.id, "prompt": s.prompts, "cwd": s.cwd, "blocks": blocks, "goal": goal, "at": time.Now()})
}

// over notes that the prompt's work has ended, and whether somebody asked for that.
func (t *turn) over() {
	cancelled := false
	select {
	case <-t.cancelled:
		cancelled = true
	default:
	}
	note(envEnds, map[string]any{"session": t.session.id, "prompt": t.number, "at": time.Now(), "cancelled": cancelled})
}

// note appends a line to the file that a variable names, if it does.
func note(variable string, what map[string]any) {
	name := os.Getenv(variable)
	if name == "" {
		return
	}
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) //nolint:gosec // the test names the file
	must(err)
	defer func() { _ = file.Close() }()
	_, err = file.Write(append(encode(what), '\n'))
	must(err)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
