package peers

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// event is something that happened to a client.
type event struct {
	Answered int             `json:"answered"`
	Result   json.RawMessage `json:"result"`
	Error    *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	Update   json.RawMessage `json:"update"`
	Question string          `json:"question"`
	Params   json.RawMessage `json:"params"`
	Settled  string          `json:"settled"`
	Closed   *string         `json:"closed"`
}

// peer is one client, whoever wrote it.
type peer struct {
	t *testing.T
	// What it can be made to do.
	request func(call int, method string, params any)
	notify  func(method string, params any)
	answer  func(question, option string)
	hangUp  func()

	mu      sync.Mutex
	events  []event
	changed chan struct{}
	calls   int
	chosen  map[string]bool // the questions that were answered
}

func newPeer(t *testing.T) *peer {
	return &peer{t: t, changed: make(chan struct{}), chosen: map[string]bool{}}
}

func (p *peer) happened(e event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, e)
	close(p.changed)
	p.changed = make(chan struct{})
}

// await waits for the first event, of all there ever were, that fits.
func (p *peer) await(fits func(event) bool) (event, error) {
	timeout := time.After(patience)
	for {
		p.mu.Lock()
		changed := p.changed
		for _, e := range p.events {
			if fits(e) {
				p.mu.Unlock()
				return e, nil
			}
		}
		p.mu.Unlock()
		select {
		case <-changed:
		case <-timeout:
			return event{}, errors.New("it never came")
		}
	}
}

// begin makes a request and returns its number.
func (p *peer) begin(method string, params any) int {
	p.mu.Lock()
	p.calls++
	call := p.calls
	p.mu.Unlock()
	p.request(call, method, params)
	return call
}

// end waits for the answer of a request.
func (p *peer) end(call int, into any) error {
	e, err := p.await(func(e event) bool { return e.Answered == call })
	switch {
	case err != nil:
		return err
	case e.Error != nil:
		return fmt.Errorf("error %d: %s", e.Error.Code, e.Error.Message)
	case into == nil:
		return nil
	default:
		return json.Unmarshal(e.Result, into)
	}
}

func (p *peer) call(method string, params, into any) error {
	return p.end(p.begin(method, params), into)
}

// words is all text that was shown of a session by updates of a kind.
func (p *peer) words(session, kind string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text(session, kind)
}

// text is words, with the lock held.
func (p *peer) text(session, kind string) string {
	var words strings.Builder
	for _, e := range p.events {
		var n update
		if json.Unmarshal(e.Update, &n) == nil && n.SessionID == session && n.Update.SessionUpdate == kind {
			words.WriteString(n.text())
		}
	}
	return words.String()
}

type update struct {
	SessionID string `json:"sessionId"`
	Update    struct {
		SessionUpdate string          `json:"sessionUpdate"`
		Status        string          `json:"status"`
		Content       json.RawMessage `json:"content"`
	} `json:"update"`
}

// text is what a message chunk says; the content of other updates is something else.
func (u *update) text() string {
	var content struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(u.Update.Content, &content) != nil {
		return ""
	}
	return content.Text
}

func (u *update) decode(e event) bool { return json.Unmarshal(e.Update, u) == nil }

func (p *peer) sees(session, kind, text string) error {
	_, err := p.await(func(e event) bool {
		var n update
		return n.decode(e) && n.SessionID == session && n.Update.SessionUpdate == kind && strings.Contains(p.text(session, kind), text)
	})
	if err != nil {
		return fmt.Errorf("%s of %q: %w", kind, text, err)
	}
	return nil
}

// typescript is a client made of the TypeScript SDK.
func typescript(t *testing.T, key string, transport ...string) *peer {
	t.Helper()
	modules := required(t, envPeers, "it is what test/peers/install.sh prints")
	p := newPeer(t)
	cmd := exec.Command("node", append([]string{"client.mjs"}, transport...)...) //nolint:noctx // it ends with its stdin
	cmd.Env = environ(t.TempDir(), "PEER_MODULES="+modules, "PEER_KEY="+key, "HEARTH_ACP_KEY="+key)
	stderr := &lines{}
	cmd.Stderr = stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	read := make(chan struct{})
	go func() {
		defer close(read)
		p.read(stdout)
	}()
	var once sync.Once
	p.hangUp = func() {
		once.Do(func() {
			_ = stdin.Close()
			timer := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
			<-read
			_ = cmd.Wait()
			timer.Stop()
			if t.Failed() && stderr.String() != "" {
				t.Logf("%v: %s", transport, stderr)
			}
		})
	}
	t.Cleanup(p.hangUp)
	var mu sync.Mutex
	say := func(v any) {
		mu.Lock()
		defer mu.Unlock()
		_ = json.NewEncoder(stdin).Encode(v) // a client that ended says so by closing
	}
	p.request = func(call int, method string, params any) {
		say(map[string]any{"call": call, "method": method, "params": params})
	}
	p.notify = func(method string, params any) { say(map[string]any{"notify": method, "params": params}) }
	p.answer = func(question, option string) {
		say(map[string]any{"answer": question, "outcome": map[string]string{"outcome": "selected", "optionId": option}})
	}
	return p
}

func (p *peer) read(from io.Reader) {
	r := bufio.NewReader(from)
	for {
		line, err := r.ReadBytes('\n')
		var e event
		if err == nil && json.Unmarshal(line, &e) == nil {
			p.happened(e)
		}
		if err != nil {
			return
		}
	}
}

// connectArgs is hearth connect to a harness.
func connectArgs(h *harness) []string { return []string{built.hearth, "connect", h.url} }

// kind is a sort of client.
type kind struct {
	name string
	dial func(h *harness, key string) *peer
}

var kinds = []kind{
	{"TypeScript SDK, WebSocket", func(h *harness, key string) *peer { return typescript(h.t, key, "ws", h.url) }},
	{"TypeScript SDK, streamable HTTP", func(h *harness, key string) *peer {
		return typescript(h.t, key, "http", "http"+strings.TrimPrefix(h.url, "ws"))
	}},
	{"TypeScript SDK, stdio through hearth connect", func(h *harness, key string) *peer {
		return typescript(h.t, key, append([]string{"stdio"}, connectArgs(h)...)...)
	}},
	{"coder/acp-go-sdk, stdio through hearth connect", coder},
}
