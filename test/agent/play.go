package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/coder/acp-go-sdk"
)

// turn is one prompt being played.
type turn struct {
	agent     *agent
	session   *session
	id        json.RawMessage
	goal      string
	meta      string // the prompt's _meta
	blocks    []string
	cancelled <-chan struct{}

	stop      acp.StopReason
	usage     *acp.Usage
	stringIDs bool
	onCancel  string
	tools     int
	number    int    // of the prompt in its session
	after     func() // what happens after the answer
}

var directive = regexp.MustCompile(`(?:^|[\s;])([a-z_]+):(?:\s+|$)(.*)$`)

// play does the directives in order and answers the prompt, unless one of them ended the turn.
func (t *turn) play() {
	if text := t.session.repaired; text != "" {
		t.session.repaired = ""
		t.say(text)
		t.end()
		return
	}
	for _, part := range strings.FieldsFunc(strings.ReplaceAll(t.goal, " ;; ", "\n"), func(r rune) bool { return r == '\n' }) {
		m := directive.FindStringSubmatch(part)
		if m == nil {
			continue
		}
		if !t.do(m[1], strings.TrimSpace(m[2])) {
			return
		}
		if t.isCancelled() {
			t.obeyCancel()
			return
		}
	}
	if !directive.MatchString(strings.ReplaceAll(t.goal, "\n", " ")) {
		t.say("done: " + t.goal)
	}
	t.end()
}

func (t *turn) end() {
	t.agent.reply(t.id, acp.PromptResponse{StopReason: t.stop, Usage: t.usage})
	if t.after != nil {
		t.after()
	}
}

// isCancelled tells whether a cancel was asked for that this turn obeys.
func (t *turn) isCancelled() bool {
	select {
	case <-t.cancelled:
		return t.onCancel != "ignore"
	default:
		return false
	}
}

func (t *turn) obeyCancel() {
	switch t.onCancel {
	case "error":
		t.agent.fail(t.id, -32800, "cancelled")
	case "", "cancelled":
		t.agent.reply(t.id, acp.PromptResponse{StopReason: acp.StopReasonCancelled})
	default:
		t.agent.reply(t.id, acp.PromptResponse{StopReason: acp.StopReason(t.onCancel), Usage: t.usage})
	}
}

// do plays one directive; false means that the turn is over.
func (t *turn) do(word, arg string) bool {
	switch word {
	case "run": // whose goal it is, for who reads the effects
	case "usage":
		var in, out int
		_, _ = fmt.Sscan(arg, &in, &out)
		t.usage = &acp.Usage{InputTokens: in, OutputTokens: out, TotalTokens: in + out}
	case "stop":
		t.stop = acp.StopReason(arg)
	case "on_cancel":
		t.onCancel = arg
	case "ids":
		t.stringIDs = arg == "string"
	case "permit":
		t.permit(arg)
	case "unknown":
		t.say(string(<-t.agent.ask(t.stringIDs, arg, map[string]any{"sessionId": t.session.id})))
	case "mute":
		t.until(nil)
	case "slow":
		t.slow(arg)
	case "wait":
		t.waitForFile(arg)
	case "touch":
		must(os.WriteFile(arg, nil, 0o600))
	case "child", "daemon", "hidden":
		t.leave(word)
	case "late":
		t.late(arg)
	case "repair":
		t.session.repaired = arg
	case "deaf":
		ignoreTermination()
		t.onCancel = "ignore"
	default:
		return t.emit(word, arg) || t.finish(word, arg)
	}
	return true
}

// emit plays the directives that only send something; false means that it is none of them.
func (t *turn) emit(word, arg string) bool {
	switch word {
	case "say":
		t.say(arg)
	case "think":
		t.agent.update(t.session.id, acp.UpdateAgentThoughtText(arg))
	case "echo":
		t.agent.update(t.session.id, acp.UpdateUserMessageText(t.goal))
	case "blocks":
		t.say(strings.Join(t.blocks, "|"))
	case "meta":
		t.say("meta=" + t.meta)
	case "cwd":
		t.say(t.session.cwd)
	case "env":
		t.say(arg + "=" + os.Getenv(arg))
	case "recall":
		t.say(t.session.recall())
	case "spent":
		var in, out int
		_, _ = fmt.Sscan(arg, &in, &out)
		in, out = t.session.count(in, out)
		t.counted(fmt.Sprint(in, " ", out))
	case "parts", "count":
		t.many(word, arg)
	case "tool":
		t.tool(arg)
	case "told":
		t.told(arg)
	case "counted":
		t.counted(arg)
	case "mode":
		t.agent.update(t.session.id, acp.SessionUpdate{CurrentModeUpdate: &acp.SessionCurrentModeUpdate{CurrentModeId: acp.SessionModeId(arg)}})
	case "huge":
		n, _ := strconv.Atoi(arg)
		t.say(strings.Repeat("x", n))
	case "bytes":
		t.bytes(arg, `"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"`, `"}`)
	case "tool_bytes":
		t.bytes(arg, `"sessionUpdate":"tool_call_update","toolCallId":"tool1","status":"completed","content":[{"type":"content","content":{"type":"text","text":"`, `"}}]`)
	case "raw":
		b, err := hex.DecodeString(arg)
		must(err)
		t.agent.raw(b)
	default:
		return false
	}
	return true
}

// finish plays the directives that end the turn, or the agent.
func (t *turn) finish(word, arg string) bool {
	switch word {
	case "error":
		code, message, _ := strings.Cut(arg, " ")
		n, _ := strconv.Atoi(code)
		t.agent.fail(t.id, n, message)
	case "crash":
		code, message, _ := strings.Cut(arg, " ")
		n, _ := strconv.Atoi(code)
		fmt.Fprintln(os.Stderr, message)
		t.over()
		os.Exit(n)
	case "die":
		t.over()
		must(syscall.Kill(os.Getpid(), syscall.SIGKILL))
	case "hugeend":
		n, _ := strconv.Atoi(arg)
		t.agent.send(frame{ID: t.id, Result: encode(map[string]any{"stopReason": "end_turn", "_meta": strings.Repeat("x", n)})})
	default:
		t.say("no such directive: " + word)
		return true
	}
	return false
}

func (t *turn) say(text string) { t.agent.update(t.session.id, acp.UpdateAgentMessageText(text)) }

// bytes sends an update that has these raw bytes in it, valid UTF-8 or not, JSON or not.
func (t *turn) bytes(arg, before, after string) {
	b, err := hex.DecodeString(arg)
	must(err)
	line := append([]byte(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"`+t.session.id+`","update":{`+before), b...)
	t.agent.raw(append(line, after+`}}}`...))
}

// many says N parts of so many bytes each, or counts to N.
func (t *turn) many(word, arg string) {
	var n, size int
	_, _ = fmt.Sscan(arg, &n, &size)
	for i := range n {
		if word == "count" {
			t.say(fmt.Sprintf("(%d)", i+1))
		} else {
			t.say(strings.Repeat("x", size))
		}
	}
}

// told tells of the context in use and of the session's cost, as in "100 0.25 USD".
func (t *turn) told(arg string) {
	used, cost, _ := strings.Cut(arg, " ")
	n, _ := strconv.Atoi(used)
	u := acp.SessionUsageUpdate{Used: n, Size: 1 << 20}
	if amount, currency, ok := strings.Cut(cost, " "); ok {
		f, err := strconv.ParseFloat(amount, 64)
		must(err)
		u.Cost = &acp.Cost{Amount: f, Currency: currency}
	}
	t.agent.update(t.session.id, acp.SessionUpdate{UsageUpdate: &u})
}

// counted tells of all tokens of the session, as goose does.
func (t *turn) counted(arg string) {
	var in, out int
	_, _ = fmt.Sscan(arg, &in, &out)
	t.agent.send(frame{Method: "_goose/unstable/session/update", Params: encode(map[string]any{
		"sessionId": t.session.id,
		"update":    map[string]any{"sessionUpdate": "usage_update", "accumulatedInputTokens": in, "accumulatedOutputTokens": out},
	})})
}

func (t *turn) tool(status string) {
	t.tools++
	id := acp.ToolCallId(fmt.Sprintf("tool%d", t.tools))
	t.agent.update(t.session.id, acp.StartToolCall(id, "a tool"))
	t.agent.update(t.session.id, acp.UpdateToolCall(id, acp.WithUpdateStatus(acp.ToolCallStatus(status))))
}

// permit asks with options of these kinds, in this order, and says which kind was chosen, or "cancelled".
func (t *turn) permit(kinds string) {
	var options []acp.PermissionOption
	for i, kind := range strings.Split(kinds, ",") {
		id := fmt.Sprintf("option%d", i)
		options = append(options, acp.PermissionOption{Kind: acp.PermissionOptionKind(kind), Name: kind, OptionId: acp.PermissionOptionId(id)})
	}
	answer := <-t.agent.ask(t.stringIDs, acp.ClientMethodSessionRequestPermission, acp.RequestPermissionRequest{
		SessionId: acp.SessionId(t.session.id), Options: options, ToolCall: acp.ToolCallUpdate{ToolCallId: "tool"},
	})
	var a struct {
		Result acp.RequestPermissionResponse `json:"result"`
	}
	must(json.Unmarshal(answer, &a))
	if a.Result.Outcome.Selected == nil {
		t.say("cancelled ")
		return
	}
	for _, o := range options {
		if o.OptionId == a.Result.Outcome.Selected.OptionId {
			t.say(string(o.Kind) + " ")
		}
	}
}

// leave starts a process that outlives the turn: in the group, in a session of its own, or there without the environment.
func (t *turn) leave(how string) {
	self, err := os.Executable()
	must(err)
	c := &exec.Cmd{Path: self, Args: []string{self, "sleep"}, SysProcAttr: &syscall.SysProcAttr{Setsid: how != "child"}}
	if how == "hidden" {
		c.Env = []string{"NOTHING=1"}
	}
	must(c.Start())
	t.say(fmt.Sprintf("pid=%d ", c.Process.Pid))
}

func (t *turn) slow(arg string) {
	n, _ := strconv.Atoi(arg)
	for i := range n {
		if !t.until(time.After(time.Second)) {
			return
		}
		t.say(fmt.Sprintf("word%d ", i+1))
	}
}

// until waits for the event, or for a cancel that this turn obeys; false in the second case.
func (t *turn) until(event <-chan time.Time) bool {
	cancelled := t.cancelled
	if t.onCancel == "ignore" {
		cancelled = nil
	}
	select {
	case <-event:
		return true
	case <-cancelled:
		return false
	}
}

func (t *turn) waitForFile(name string) {
	for t.until(time.After(5 * time.Millisecond)) {
		if _, err := os.Stat(name); err == nil {
			return
		}
	}
}
