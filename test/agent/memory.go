package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/coder/acp-go-sdk"
)

// Environment of an agent that remembers.
const (
	envMemory = "AGENT_MEMORY" // a directory: sessions are kept there, and can be loaded
	envLoad   = "AGENT_LOAD"   // "fail", "mute": how session/load is answered
)

// memory is what is kept of a session.
type memory struct {
	Goals []string `json:"goals"`
	In    int      `json:"in"` // tokens that were counted
	Out   int      `json:"out"`
}

// remembers tells whether sessions can be loaded.
func remembers() bool { return os.Getenv(envMemory) != "" }

func (s *session) file() string { return filepath.Join(os.Getenv(envMemory), s.id) }

// keep remembers one more goal.
func (s *session) keep(goal string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.past.Goals = append(s.past.Goals, goal)
	s.save()
}

func (s *session) count(in, out int) (int, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.past.In, s.past.Out = s.past.In+in, s.past.Out+out
	s.save()
	return s.past.In, s.past.Out
}

func (s *session) save() {
	if remembers() {
		must(os.WriteFile(s.file(), encode(s.past), 0o600))
	}
}

// recall is all goals of the session but the last, which is being played.
func (s *session) recall() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.past.Goals[:len(s.past.Goals)-1], "|")
}

// loadSession repeats what was said, then answers.
func (a *agent) loadSession(f frame) {
	var p acp.LoadSessionRequest
	must(json.Unmarshal(f.Params, &p))
	s := &session{id: string(p.SessionId), cwd: p.Cwd}
	b, err := os.ReadFile(s.file())
	switch how := os.Getenv(envLoad); {
	case how == "mute":
		return
	case how == "fail" || err != nil || !remembers():
		a.fail(f.ID, -32002, "session not found")
		return
	}
	must(json.Unmarshal(b, &s.past))
	a.sessions[s.id] = s
	for _, goal := range s.past.Goals {
		a.update(s.id, acp.UpdateUserMessageText(goal))
		a.update(s.id, acp.UpdateAgentMessageText("replayed "+goal))
	}
	a.reply(f.ID, struct{}{})
}

// late says something after the turn's answer, once the first file is there, and then makes the second.
func (t *turn) late(arg string) {
	fields := strings.SplitN(arg, " ", 3)
	t.after = func() {
		t.waitForFile(fields[0])
		t.say(fields[2])
		must(os.WriteFile(fields[1], nil, 0o600))
	}
}
