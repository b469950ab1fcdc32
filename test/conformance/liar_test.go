package conformance

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/challenge"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/harness"
)

// liar is a runtime that is wrong in one way: our own server, and in front of it somebody who holds the keys, changes what passes and
// signs it anew.
type liar struct {
	t     *testing.T
	keys  challenge.Keys
	house *harness.Harness
	inner http.Handler // of the present boot
	wrong defect

	mu     sync.Mutex
	boots  int
	memory map[string]string // what a defect remembers
}

// exchange is one request on its way in, and its response on its way out.
type exchange struct {
	*http.Request
	body     []byte
	cut      error // the body did not arrive whole
	asked    challenge.Request
	proven   bool // the proof is right
	trusted  bool // the proof is taken for right
	unsigned bool
	status   int
	header   http.Header
	answer   []byte
}

func (x *exchange) is(method, path string) bool { return x.Method == method && x.URL.Path == path }

// run is the run that a path names.
func (x *exchange) run() string {
	uid, _ := strings.CutPrefix(x.URL.Path, wire.RunsPath+"/")
	return strings.TrimSuffix(uid, wire.RecordedSuffix)
}

func (x *exchange) content() map[string]any {
	var m map[string]any
	_ = json.Unmarshal(x.body, &m)
	return m
}

// shown is the answer's object, to be changed and put back with show.
func (x *exchange) shown() map[string]any {
	var m map[string]any
	_ = json.Unmarshal(x.answer, &m)
	return m
}

func (x *exchange) show(m map[string]any) { x.answer = encoded(m) }

// code is the code of a refusal.
func (x *exchange) code() wire.Code {
	code, _ := x.shown()["code"].(string)
	return wire.Code(code)
}

// refuse makes the response a refusal.
func (x *exchange) refuse(p *wire.Problem) {
	x.status, x.answer = p.Status, encoded(p)
	x.header.Set("Content-Type", wire.ProblemMediaType)
	x.header.Set("Retry-After", "1")
}

// accept makes the response an acceptance.
func (x *exchange) accept(status int) {
	uid, _ := x.content()["run"].(map[string]any)["uid"].(string)
	x.status = status
	x.header.Set("Content-Type", "application/json")
	x.show(map[string]any{"run": map[string]any{"namespace": "team", "name": "conformance", "uid": uid}, "attempt": x.content()["attempt"], "digest": "x", "state": "accepted", "acceptedAt": "2026-01-01T00:00:00Z"})
}

func newLiar(t *testing.T, d defect) *liar {
	l := &liar{t: t, wrong: d, memory: map[string]string{}}
	o := harness.Options{Scheme: wire.SchemeHTTP, Wrap: func(inner http.Handler) http.Handler {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.inner = inner
		l.boots++
		delete(l.memory, "drains")
		return l
	}}
	if d.harness != nil {
		d.harness(&o)
	}
	l.keys = harness.Keys(t, "pod-1")
	l.house = harness.Start(t, o)
	return l
}

func (l *liar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{Request: r, header: http.Header{}}
	x.body, x.cut = io.ReadAll(r.Body)
	x.asked = challenge.Request{
		Method: r.Method, Target: r.RequestURI, PodName: l.house.Identity.PodName, PodUID: l.house.Identity.PodUID,
		Boot: r.Header.Get(wire.HeaderBoot), Challenge: r.Header.Get(wire.HeaderChallenge), Body: x.body,
	}
	proofs := r.Header.Values(wire.HeaderProof)
	x.proven = len(proofs) == 1 && l.keys.VerifyProof(x.asked, proofs[0])
	if l.wrong.request != nil {
		l.wrong.request(l, x)
	}
	l.pass(x)
	if l.wrong.mend != nil {
		for range 3 { // a request may be wrong in several places
			if x.code() == wire.CodeMalformed && l.wrong.mend(x, x.shown()) {
				l.pass(x)
			}
		}
	}
	if l.wrong.response != nil {
		l.wrong.response(l, x)
	}
	signed := x.header.Get(wire.HeaderAnswer) != ""
	for name, values := range x.header {
		w.Header()[name] = values
	}
	w.Header().Del(wire.HeaderAnswer)
	if signed && !x.unsigned {
		status := x.status
		if l.wrong.macStatus != 0 {
			status = l.wrong.macStatus
		}
		w.Header().Set(wire.HeaderAnswer, l.keys.Answer(x.asked, status, x.answer))
	}
	if l.wrong.reply != nil && l.wrong.reply(w, x) {
		return
	}
	if x.status != http.StatusNoContent {
		w.Header().Set("Content-Length", strconv.Itoa(len(x.answer)))
	}
	w.WriteHeader(x.status)
	_, _ = w.Write(x.answer)
}

// pass has the real server answer the request as it is now.
func (l *liar) pass(x *exchange) {
	l.mu.Lock()
	inner := l.inner
	l.mu.Unlock()
	r := x.Request.Clone(x.Context())
	r.RequestURI = x.URL.RequestURI()
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(x.body)), int64(len(x.body))
	if x.cut != nil {
		r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(x.body), broken{x.cut}))
	}
	if x.proven || x.trusted {
		r.Header.Set(wire.HeaderProof, l.keys.Proof(challenge.Request{
			Method: r.Method, Target: r.RequestURI, PodName: x.asked.PodName, PodUID: x.asked.PodUID,
			Boot: r.Header.Get(wire.HeaderBoot), Challenge: r.Header.Get(wire.HeaderChallenge), Body: x.body,
		}))
	}
	w := httptest.NewRecorder()
	inner.ServeHTTP(w, r)
	x.status, x.header, x.answer = w.Code, w.Header(), w.Body.Bytes()
}

type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

// ask has the real server answer a question of the liar's own.
func (l *liar) ask(x *exchange, method, target string, body []byte) *exchange {
	r, err := http.NewRequestWithContext(x.Context(), method, target, bytes.NewReader(body))
	require.NoError(l.t, err)
	r.Host = l.house.Identity.PodName
	r.Header.Set(wire.HeaderChallenge, nonce())
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if target != wire.ChallengePath {
		r.Header.Set(wire.HeaderBoot, x.Header.Get(wire.HeaderBoot))
	}
	own := &exchange{Request: r, body: body, trusted: true, asked: x.asked}
	l.pass(own)
	return own
}

// recall and remember are a defect's memory.
func (l *liar) recall(what string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.memory[what]
}

func (l *liar) remember(what, value string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.memory[what] = value
}

// boot counts the boots.
func (l *liar) boot() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.boots
}

// at is the object that a JSON pointer leads into, and the last name of it.
func at(m map[string]any, pointer string) (map[string]any, string) {
	parts := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for _, p := range parts[:len(parts)-1] {
		below, ok := m[p].(map[string]any)
		if !ok {
			below = map[string]any{}
			m[p] = below
		}
		m = below
	}
	return m, parts[len(parts)-1]
}
