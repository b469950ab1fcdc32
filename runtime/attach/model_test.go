package attach

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// model is what the hub should do: a session has what was said; a client has seen all of it from the beginning if it loaded it.
type model struct {
	h       *house
	a       *agent
	d       *delivered
	own     string       // the session that clients prompt
	prompt  string       // under way in it, as the agent was sent it
	author  *modelClient // of that prompt
	asked   string       // the open question of the run, as the agent numbers it
	clients []*modelClient
	said    int
	asks    int
}

// modelClient is one client and what it should have seen.
type modelClient struct {
	*guest
	want  []string // exactly these come next
	knows map[string]bool
}

func (m *model) session(t *rapid.T) string {
	return rapid.SampledFrom([]string{"r1", m.own}).Draw(t, "session")
}

func (m *model) client(t *rapid.T) *modelClient {
	if len(m.clients) == 0 {
		t.Skip("nobody is there")
	}
	return rapid.SampledFrom(m.clients).Draw(t, "client")
}

// see says that everybody who knows the session sees this.
func (m *model) see(session, message string, but *modelClient) {
	for _, c := range m.clients {
		if c.knows[session] && c != but {
			c.want = append(c.want, message)
		}
	}
}

func (m *model) attach(t *rapid.T) {
	if len(m.clients) >= 6 {
		t.Skip("enough")
	}
	access := rapid.SampledFrom([]Access{View, Steer}).Draw(t, "access")
	m.clients = append(m.clients, &modelClient{guest: m.h.connect(access), knows: map[string]bool{}})
}

func (m *model) leave(t *rapid.T) {
	c := m.client(t)
	c.Close()
	if m.author == c {
		m.author = nil
	}
	m.clients = slices.DeleteFunc(m.clients, func(o *modelClient) bool { return o == c })
}

func (m *model) load(t *rapid.T) {
	c, session := m.client(t), m.session(t)
	id := c.send("session/load", `{"sessionId":"`+session+`"}`)
	c.want = append(c.want, expected(m.h.t, m.h, session)...)
	c.want = append(c.want, "answer "+id)
	if session == "r1" && m.asked != "" && c.access == Steer && !c.knows["r1"] && m.open() {
		c.want = append(c.want, "question")
	}
	c.knows[session] = true
}

// open tells whether the question waits for people.
func (m *model) open() bool { return len(m.h.hub.open) > 0 }

func (m *model) update(t *rapid.T) {
	session := m.session(t)
	m.said++
	line := says(session, fmt.Sprintf("%d", m.said))
	m.a.write(line)
	m.a.sync()
	m.see(session, line, nil)
}

func (m *model) prompts(t *rapid.T) {
	c := m.client(t)
	m.said++
	word := fmt.Sprintf("prompt %d", m.said)
	id := c.send("session/prompt", `{"sessionId":"`+m.own+`","prompt":[{"type":"text","text":"`+word+`"}]}`)
	if c.access != Steer || m.prompt != "" {
		c.want = append(c.want, "answer "+id)
		return
	}
	m.prompt, m.author = m.a.read(), c
	require.Contains(t, m.prompt, word)
	c.knows[m.own] = true
	c.want = append(c.want, "later "+id)
	m.see(m.own, string(update(m.own, []byte(`{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"`+word+`"}}`))), c)
}

func (m *model) answerPrompt(t *rapid.T) {
	if m.prompt == "" {
		t.Skip("nothing is under way")
	}
	m.a.write(result(m.prompt, `{"stopReason":"end_turn"}`))
	m.a.sync()
	if c := m.author; c != nil {
		for i, w := range c.want {
			if id, is := strings.CutPrefix(w, "later "); is {
				c.want = append(slices.Delete(c.want, i, i+1), "answer "+id)
			}
		}
	}
	m.prompt, m.author = "", nil
}

func (m *model) ask(t *rapid.T) {
	if m.asked != "" {
		t.Skip("it waits for an answer")
	}
	m.asks++
	m.asked = fmt.Sprintf(`"q%d"`, m.asks)
	m.a.write(permission(m.asked, "r1"))
	somebody := false
	for _, c := range m.clients {
		if c.access == Steer && c.knows["r1"] {
			c.want = append(c.want, "question")
			somebody = true
		}
	}
	if !somebody {
		require.Contains(t, m.a.read(), `"id":`+m.asked+`,"result":`+denied)
		m.asked = ""
		return
	}
	m.a.sync()
}

// settle lets a client that may answer do so; everybody else is told.
func (m *model) settle(t *rapid.T) {
	c := m.client(t)
	if m.asked == "" || c.access != Steer || !c.knows["r1"] {
		t.Skip("it may not")
	}
	number := m.h.hub.asked
	c.Receive([]byte(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%s}`, number, yes)))
	require.Equal(t, `{"jsonrpc":"2.0","id":`+m.asked+`,"result":`+yes+`}`, m.a.read())
	for _, o := range m.clients {
		if o != c && o.access == Steer && o.knows["r1"] {
			o.want = append(o.want, fmt.Sprintf(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":%d}}`, number))
		}
	}
	m.asked = ""
}

// check reads what every client has, and compares.
func (m *model) check(t *rapid.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range m.clients {
		var kept []string
		for _, want := range c.want {
			if strings.HasPrefix(want, "later ") {
				kept = append(kept, want)
				continue
			}
			next, err := c.Next(ctx)
			require.NoError(t, err, "expected %s", want)
			got := string(next.Data)
			switch id, answer := strings.CutPrefix(want, "answer "); {
			case answer:
				require.Equal(t, id, idOf(got), got)
			case want == "question":
				require.Equal(t, "session/request_permission", methodOf(got), got)
			default:
				require.Equal(t, want, got)
			}
		}
		c.want = kept
		next, err := c.Next(ctx)
		require.ErrorIs(t, err, context.Canceled, "%s", next.Data)
	}
}

// Clients come, load, prompt, answer and go in any order, and each sees exactly what a simple model says.
func TestClientsSeeWhatTheModelSays(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := newHouse(t)
		a := h.rise(0, "", false)
		m := &model{h: h, a: a, own: "s1"}
		m.d = a.begin("r1", "u1")
		first := h.connect(Steer)
		first.open(a, "s1")
		first.Close()
		rt.Repeat(map[string]func(*rapid.T){
			"attach": m.attach, "leave": m.leave, "load": m.load, "update": m.update, "prompt": m.prompts, "answer": m.answerPrompt,
			"ask": m.ask, "settle": m.settle, "": m.check,
		})
		for _, c := range m.clients {
			c.Close()
		}
		_ = a.out.Close()
		<-a.conn.Done()
	})
}
