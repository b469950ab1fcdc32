package attach

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/process"
	"github.com/hearthdev/hearth/runtime/router"
	"github.com/hearthdev/hearth/runtime/transcript"
	"github.com/hearthdev/hearth/runtime/turn"
)

// removeAgent removes what benchmarks built.
var removeAgent = func() {}

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		removeAgent()
		os.Exit(code)
	}))
}

// patience is how long anything may take before a test gives up.
const patience = time.Minute

// house is a hub, its transcripts and its agents, which the test plays.
type house struct {
	t     testing.TB
	hub   *Hub
	store *transcript.Store
	dirs  int
}

func newHouse(t testing.TB, change ...func(*Config)) *house {
	t.Helper()
	return newHouseIn(t, t.TempDir(), change...)
}

func newHouseIn(t testing.TB, dir string, change ...func(*Config)) *house {
	t.Helper()
	h := &house{t: t}
	log := slog.New(slog.DiscardHandler)
	store, err := transcript.Open(transcript.Config{Dir: dir, Secrets: []string{"the-secret-of-the-house"}, Now: time.Now, Log: log})
	require.NoError(t, err)
	h.store = store
	cfg := Config{Version: "v", Store: store, Policy: turn.Deny, Log: log, Now: time.Now, Dir: func(asked string) (string, error) {
		if asked == "/here" {
			return asked, nil
		}
		h.dirs++
		return fmt.Sprintf("/fresh/%d", h.dirs), nil
	}}
	for _, f := range change {
		f(&cfg)
	}
	h.hub = New(cfg)
	t.Cleanup(func() {
		h.hub.Close()
		assert.NoError(t, store.Close())
	})
	return h
}

// agent is one that the test plays.
type agent struct {
	h    *house
	slot int
	conn *router.Conn
	in   *bufio.Reader
	out  *io.PipeWriter

	mu    sync.Mutex
	cause error
}

const greeted = `{"protocolVersion":1,"agentCapabilities":{"promptCapabilities":{"image":true},"sessionCapabilities":{"close":{}},"loadSession":%t},"agentInfo":{"name":"scripted","version":"1.0"},"authMethods":[]}`

func (h *house) rise(slot int, prefix string, loads bool) *agent {
	h.t.Helper()
	toR, toW := io.Pipe()
	fromR, fromW := io.Pipe()
	a := &agent{h: h, slot: slot, in: bufio.NewReaderSize(toR, 1<<20), out: fromW}
	a.conn = router.Open(router.Config{
		In: fromR, Out: toW, Now: time.Now, Watcher: h.hub.Watch(slot), Prefix: prefix,
		Cause: func() error {
			a.mu.Lock()
			defer a.mu.Unlock()
			return a.cause
		},
	})
	h.hub.Rose(slot, a.conn, router.Agent{Name: "scripted", Version: "1.0", Loads: loads, Answer: []byte(fmt.Sprintf(greeted, loads))})
	h.t.Cleanup(func() {
		_ = fromW.Close()
		_ = toR.Close()
		<-a.conn.Done()
	})
	return a
}

// die ends the agent as its process would.
func (a *agent) die() {
	a.mu.Lock()
	a.cause = &process.ExitError{Exit: process.Exit{Code: 3, Stderr: strings.Repeat("x", 2000) + "the last words"}}
	a.mu.Unlock()
	_ = a.out.Close()
	<-a.conn.Done()
	a.h.hub.Fell(a.slot)
}

func (a *agent) write(lines ...string) {
	a.h.t.Helper()
	for _, l := range lines {
		_, err := io.WriteString(a.out, l+"\n")
		require.NoError(a.h.t, err)
	}
}

// read returns the next line that the agent was sent.
func (a *agent) read() string {
	a.h.t.Helper()
	line, err := a.in.ReadString('\n')
	require.NoError(a.h.t, err)
	return strings.TrimSuffix(line, "\n")
}

// sync waits until all that the agent wrote was read.
func (a *agent) sync() {
	a.h.t.Helper()
	done := make(chan struct{})
	go func() {
		_, _ = a.conn.Call(context.Background(), "_sync", 1)
		close(done)
	}()
	a.write(result(a.read(), `{}`))
	<-done
}

func idOf(line string) string {
	var f struct {
		ID json.RawMessage `json:"id"`
	}
	_ = json.Unmarshal([]byte(line), &f)
	return string(f.ID)
}

func methodOf(line string) string {
	var f struct {
		Method string `json:"method"`
	}
	_ = json.Unmarshal([]byte(line), &f)
	return f.Method
}

func result(request, value string) string {
	return `{"jsonrpc":"2.0","id":` + idOf(request) + `,"result":` + value + `}`
}

// says is an update; the spaces are the agent's own way of writing.
func says(session, text string) string {
	return `{"jsonrpc":"2.0", "method":"session/update","params":{"sessionId":"` + session +
		`","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + text + `"}},"x":1.0}}`
}

func permission(id, session string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"session/request_permission","params":{"sessionId":"` + session +
		`","toolCall":{"toolCallId":"t"},"options":[{"optionId":"yes","kind":"allow_once","name":"Y"},{"optionId":"no","kind":"reject_once","name":"N"}]}}`
}

// ahead has the harness open a session for a run to come; answer has the agent give it this id.
func (a *agent) ahead(session string) (answer func() *router.Session) {
	a.h.t.Helper()
	opened := make(chan *router.Session, 1)
	go func() {
		s, err := a.conn.NewSession(context.Background(), "/work")
		assert.NoError(a.h.t, err)
		opened <- s
	}()
	line := a.read()
	return func() *router.Session {
		a.write(result(line, `{"sessionId":"`+session+`","modes":{"currentModeId":"ask","availableModes":[]}}`))
		return <-opened
	}
}

// begin lets the agent begin a run in a session, as a turn does it.
func (a *agent) begin(session, uid string) *delivered {
	a.h.t.Helper()
	return a.beginIn(a.ahead(session)(), uid)
}

func (a *agent) beginIn(s *router.Session, uid string) *delivered {
	a.h.t.Helper()
	d := &delivered{agent: a, session: s, run: turn.Run{Namespace: "ns", Name: "run-" + uid, UID: uid, Attempt: 1}, cancelled: make(chan error, 9)}
	a.h.hub.Begin(a.slot, s.ID, d.run, func(cause error) { d.cancelled <- cause })
	s.Attach(d)
	call, err := s.Prompt("the goal")
	require.NoError(a.h.t, err)
	d.call, d.prompt = call, a.read()
	return d
}

// delivered is a run that is under way.
type delivered struct {
	agent     *agent
	session   *router.Session
	run       turn.Run
	call      *router.Call
	prompt    string // as the agent was sent it
	cancelled chan error
	goesOn    bool // the session, after it
}

func (d *delivered) Notified(router.Notification) {}
func (d *delivered) Lost(error)                   {}
func (d *delivered) Asked(r *router.Request) {
	d.agent.h.hub.Ask(d.agent.slot, r, func() { turn.Deny.Settle(r) })
}

// end ends the run.
func (d *delivered) end() {
	d.agent.h.t.Helper()
	d.agent.write(result(d.prompt, `{"stopReason":"end_turn"}`))
	<-d.call.Done()
	d.session.Release()
	d.agent.h.hub.End(d.agent.slot, d.session.ID, d.run, wire.Envelope{Outcome: wire.OutcomeSucceeded, Reason: wire.ReasonCompleted}, d.goesOn)
}

// guest is a client that the test plays.
type guest struct {
	t testing.TB
	*Client
	asked int
}

// connect lets a client in and greets it.
func (h *house) connect(access Access) *guest {
	h.t.Helper()
	c, err := h.hub.Connect(access)
	require.NoError(h.t, err)
	g := &guest{t: h.t, Client: c}
	h.t.Cleanup(c.Close)
	require.Contains(h.t, g.ask("initialize", `{"protocolVersion":1}`), `"protocolVersion":1`)
	return g
}

func (g *guest) next() string {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	m, err := g.Next(ctx)
	require.NoError(g.t, err)
	return string(m.Data)
}

// silent tells that nothing waits for the client.
func (g *guest) silent() {
	g.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	m, err := g.Next(ctx)
	require.ErrorIs(g.t, err, context.Canceled, "%s", m.Data)
}

// send sends a request and returns its id.
func (g *guest) send(method, params string) string {
	g.asked++
	id := fmt.Sprintf(`"%c-%d"`, 'a', g.asked)
	g.Receive([]byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":` + params + `}`))
	return id
}

// ask sends a request and returns what comes next.
func (g *guest) ask(method, params string) string {
	g.t.Helper()
	id := g.send(method, params)
	answer := g.next()
	assert.Equal(g.t, id, idOf(answer), "%s", answer)
	return answer
}

// until reads up to the answer to the request with this id, and returns that last.
func (g *guest) until(id string) []string {
	g.t.Helper()
	var all []string
	for {
		m := g.next()
		all = append(all, m)
		if idOf(m) == id && methodOf(m) == "" {
			return all
		}
	}
}

// load loads a session and returns what was replayed.
func (g *guest) load(session string) []string {
	g.t.Helper()
	all := g.until(g.send("session/load", `{"sessionId":"`+session+`","cwd":"/here","mcpServers":[]}`))
	require.Contains(g.t, all[len(all)-1], `"result"`)
	return all[:len(all)-1]
}

// open opens a session of the client's own, which the agent gives this id.
func (g *guest) open(a *agent, session string) {
	g.t.Helper()
	id := g.send("session/new", `{"cwd":"/here","mcpServers":[]}`)
	a.write(result(a.read(), `{"sessionId":"`+session+`"}`))
	all := g.until(id)
	require.Len(g.t, all, 1)
	require.Contains(g.t, all[0], `"result"`)
}

func codeOf(answer string) int {
	var f struct {
		Error struct {
			Code int `json:"code"`
		} `json:"error"`
	}
	_ = json.Unmarshal([]byte(answer), &f)
	return f.Error.Code
}
