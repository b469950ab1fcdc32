package attach

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// words is a prompt, and shown what others see of it.
func words(session, text string) string {
	return `{"sessionId":"` + session + `","prompt":[{"type":"text","text":"` + text + `"}]}`
}

func shown(session, text string) string {
	return string(update(session, []byte(`{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"`+text+`"}}`)))
}

// sees tells that exactly these come next, an answer by its id.
func (g *guest) sees(messages ...string) {
	g.t.Helper()
	for _, want := range messages {
		got := g.next()
		if methodOf(got) == "" {
			got = idOf(got)
		}
		assert.Equal(g.t, want, got)
	}
	g.silent()
}

// ahead does something in a session that is known, before the client has the answer that tells it so. If the session is held until then,
// it is done once the answer is on its way.
func (g *guest) ahead(session string, answer, do func()) {
	g.t.Helper()
	g.out.mu.Lock() // the answer comes no further than this
	free := sync.OnceFunc(g.out.mu.Unlock)
	defer free()
	answer()
	for looks, begun := 0, time.Now(); looks < 1000 && time.Since(begun) < patience; runtime.Gosched() {
		s := g.hub.session(session)
		g.mu.Lock()
		_, viewer := g.sessions[s]
		g.mu.Unlock()
		if viewer {
			looks++ // whoever holds it since then does so until the answer is on its way
		}
		if s == nil || !s.mu.TryLock() {
			continue
		}
		open := s.claimed()
		s.mu.Unlock()
		if open {
			require.False(g.t, viewer, "it would be shown what is said in the session before the answer")
			do()
			return
		}
	}
	var doing sync.WaitGroup
	doing.Go(do)
	free()
	doing.Wait()
}

// SPEC.md, People at the agent: a client sees the prompts of others, and all without gap or double (R51). It is so, too, for who is
// quicker than the answer to session/new.
func TestWhoIsQuickerThanTheAnswerSeesTheSame(t *testing.T) {
	const before, last = "before", "last"
	for name, quick := range map[string]struct {
		do           func(g, other *guest)
		mine, others []string // what they see before the last
	}{
		"its own prompt": {
			func(g, _ *guest) { g.send("session/prompt", words("s1", "go")) }, nil, nil,
		},
		"another's prompt": {
			func(_, other *guest) { other.send("session/prompt", words("s1", "go")) }, []string{shown("s1", "go")}, nil,
		},
		"its own prompt and another's load": {
			func(g, other *guest) {
				other.send("session/load", `{"sessionId":"s1"}`)
				g.send("session/prompt", words("s1", "go"))
			}, nil, []string{says("s1", before), `"a-2"`, shown("s1", "go")},
		},
	} {
		for method, params := range map[string]string{"session/new": `{"cwd":"/here"}`, "session/fork": `{"sessionId":"old"}`, "_x/new": `{}`} {
			t.Run(name+" "+method, func(t *testing.T) {
				h := newHouse(t)
				a := h.rise(0, "", false)
				g, other := h.connect(Steer), h.connect(Steer)
				g.open(a, "old")
				id := g.send(method, params)
				line := a.read()
				a.write(says("s1", before))
				a.sync()
				g.ahead("s1", func() { a.write(result(line, `{"sessionId":"s1"}`)) }, func() { quick.do(g, other) })
				a.read()
				a.write(says("s1", last))
				a.sync()
				g.sees(append(append([]string{id, says("s1", before)}, quick.mine...), says("s1", last))...)
				if _, viewer := other.sessions[h.hub.session("s1")]; viewer {
					other.sees(append(quick.others, says("s1", last))...)
				}
			})
		}
	}
}

// Agents number their sessions anew. One that takes the place of another of its number is not known before it is known whose it is: nobody
// is shown a prompt of his own, and who may only watch a run does not prompt it (R53).
func TestASessionIsKnownOnceItIsKnownWhoseItIs(t *testing.T) {
	quick := func() {}
	again := func(t *testing.T) (b *agent, g, other *guest) {
		h := newHouse(t, func(c *Config) { c.Left = func(string) { quick() } }) // the other's directory is given back
		a := h.rise(0, "", true)
		g, other = h.connect(Steer), h.connect(Steer)
		g.open(a, "s1")
		a.die()
		quick = func() { other.send("session/prompt", words("s1", "go")) }
		return h.rise(0, "", true), g, other
	}
	t.Run("a client's", func(t *testing.T) {
		b, g, other := again(t)
		g.open(b, "s1")
		b.read()
		b.write(says("s1", "last"))
		b.sync()
		g.sees(shown("s1", "go"), says("s1", "last"))
		other.sees(says("s1", "last"))
	})
	t.Run("a run's", func(t *testing.T) {
		b, _, other := again(t)
		require.Contains(t, b.begin("s1", "u1").prompt, `"the goal"`, "nothing else was sent")
		assert.Equal(t, CodeNotAllowed, codeOf(other.next()))
		other.silent()
	})
}

// SPEC.md, People at the agent: a prompt that comes right behind the load or the resume of its session, and one of another client's, reach
// who loads it in the same way, whoever answers the load (R51).
func TestPromptsAroundALoad(t *testing.T) {
	for _, method := range []string{"session/load", "session/resume"} {
		replayed := []string{}
		if method == "session/load" {
			replayed = []string{says("s1", "before")}
		}
		load := `{"sessionId":"s1","cwd":"/here"}`
		open := func(t *testing.T) (*agent, *guest, *guest) {
			h := newHouse(t)
			a := h.rise(0, "", true)
			g, other := h.connect(Steer), h.connect(Steer)
			other.open(a, "s1")
			a.write(says("s1", "before"))
			a.sync()
			other.sees(says("s1", "before"))
			return a, g, other
		}
		t.Run(method+" that the harness answers", func(t *testing.T) {
			a, g, other := open(t)
			loaded := g.send(method, load)
			id := g.send("session/prompt", words("s1", "go"))
			a.write(result(a.read(), `{}`))
			a.sync()
			g.sees(append(replayed, loaded, id)...)
			other.sees(shown("s1", "go"))
			id = other.send("session/prompt", words("s1", "next"))
			a.write(result(a.read(), `{}`))
			a.sync()
			g.sees(shown("s1", "next"))
			other.sees(id)
		})
		t.Run(method+" that is being answered", func(t *testing.T) {
			a, g, other := open(t)
			g.out.mu.Lock() // what it is shown comes no further than this
			var loaded, id string
			var doing sync.WaitGroup
			s := g.hub.session("s1")
			doing.Go(func() { loaded = g.send(method, load) })
			for s.mu.TryLock() {
				s.mu.Unlock()
				runtime.Gosched()
			}
			doing.Go(func() { id = other.send("session/prompt", words("s1", "go")) })
			g.out.mu.Unlock()
			doing.Wait()
			a.write(result(a.read(), `{}`))
			a.sync()
			g.sees(append(replayed, loaded, shown("s1", "go"))...)
			other.sees(id)
		})
		t.Run(method+" after a restart", func(t *testing.T) {
			a, g, other := open(t)
			a.die()
			b := a.h.rise(0, "", true)
			loaded := g.send(method, load)
			line := b.read()
			for _, c := range []*guest{g, other} {
				assert.Equal(t, CodeBusy, codeOf(c.ask("session/prompt", words("s1", "early"))), "the agent does not know it yet")
			}
			b.write(says("s1", "before"), result(line, `{}`))
			g.sees(append(replayed, loaded)...)
			id := g.send("session/prompt", words("s1", "go"))
			b.write(result(b.read(), `{}`))
			b.sync()
			g.sees(id)
			other.sees(shown("s1", "go"))
		})
	}
}

// SPEC.md, People at the agent: it is so, too, while the agent tells of a session that only it knows (R51).
func TestPromptsWhileTheAgentLoadsWhatOnlyItKnows(t *testing.T) {
	for _, method := range []string{"session/load", "session/resume"} {
		t.Run(method, func(t *testing.T) {
			h := newHouse(t)
			a := h.rise(0, "", true)
			g, other := h.connect(Steer), h.connect(Steer)
			loaded := g.send(method, `{"sessionId":"s1","cwd":"/here"}`)
			line := a.read()
			a.write(says("s1", "before"))
			a.sync()
			g.sees(says("s1", "before"))
			for _, c := range []*guest{g, other} {
				assert.Equal(t, CodeBusy, codeOf(c.ask("session/prompt", words("s1", "early"))), "it may be a run's")
			}
			a.write(result(line, `{}`))
			a.sync()
			g.sees(loaded)
			id := other.send("session/prompt", words("s1", "go"))
			a.write(result(a.read(), `{}`))
			a.sync()
			g.sees(shown("s1", "go"))
			other.sees(id)
			id = g.send("session/prompt", words("s1", "next"))
			a.write(result(a.read(), `{}`))
			a.sync()
			g.sees(id)
			other.sees(shown("s1", "next"))
		})
	}
}
