package attach

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/runtime/turn"
)

const (
	yes    = `{"outcome":{"outcome":"selected","optionId":"yes"}}`
	denied = `{"outcome":{"optionId":"no","outcome":"selected"}}`
)

func (g *guest) answer(question, value string) { g.Receive([]byte(result(question, value))) }

func told(question string) string {
	return `{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":` + idOf(question) + `}}`
}

// R52: all who may answer are asked, those who come late too; the first answer counts, byte for byte, the others are told.
func TestTheFirstAnswerCountsAndTheOthersAreTold(t *testing.T) {
	h := newHouse(t)
	a := h.rise(0, "", false)
	a.begin("r1", "u1")
	one, two, viewer, elsewhere := h.connect(Steer), h.connect(Steer), h.connect(View), h.connect(Steer)
	for _, g := range []*guest{one, two, viewer} {
		g.load("r1")
	}
	const id = `"q-\u00e9\/"`
	a.write(permission(id, "r1"))
	asked := one.next()
	assert.Equal(t, permission(idOf(asked), "r1"), asked)
	assert.Equal(t, asked, two.next())
	late := h.connect(Steer)
	late.load("r1")
	assert.Equal(t, asked, late.next(), "who comes late is asked as well")
	one.load("r1") // who loads it once more has been asked already
	lateViewer := h.connect(View)
	lateViewer.load("r1")
	leaver := h.connect(Steer)
	leaver.load("r1")
	leaver.Close()

	viewer.answer(asked, yes)
	elsewhere.answer(asked, yes)
	two.answer(asked, `{"outcome":{"outcome":"selected","optionId":"never offered"}}`)
	one.answer(asked, `{"outcome": {"optionId":"yes","outcome":"selected"},"_x":1.0}`)
	late.answer(asked, denied)
	assert.Equal(t, `{"jsonrpc":"2.0","id":`+id+`,"result":{"outcome": {"optionId":"yes","outcome":"selected"},"_x":1.0}}`, a.read())
	assert.Equal(t, told(asked), late.next())
	a.sync()
	for _, g := range []*guest{one, two, viewer, lateViewer, elsewhere} {
		g.silent()
	}
	assert.Empty(t, h.hub.open)
	assert.Empty(t, h.hub.session("r1").asked)
}

// R52: nobody is there, nobody answers in time, everybody leaves it to others: Deny. A question outlives the last who saw it.
func TestWhereNobodyAnswersItIsDenied(t *testing.T) {
	h := newHouse(t, func(c *Config) { c.AskTimeout = 50 * time.Millisecond })
	a := h.rise(0, "", false)
	a.begin("r1", "u1")
	viewer := h.connect(View)
	viewer.load("r1")
	a.write(permission(`1`, "r1"))
	assert.Equal(t, `{"jsonrpc":"2.0","id":1,"result":`+denied+`}`, a.read(), "nobody is there who may answer")

	g := h.connect(Steer)
	g.load("r1")
	a.write(permission(`2`, "r1"))
	asked := g.next()
	assert.Equal(t, `{"jsonrpc":"2.0","id":2,"result":`+denied+`}`, a.read(), "in time")
	assert.Equal(t, told(asked), g.next())

	h.hub.cfg.AskTimeout = time.Hour
	a.write(permission(`3`, "r1"))
	asked = g.next()
	g.Receive([]byte(`{"jsonrpc":"2.0","id":` + idOf(asked) + `,"error":{"code":-32601,"message":"what?"}}`))
	assert.Equal(t, `{"jsonrpc":"2.0","id":3,"result":`+denied+`}`, a.read(), "who cannot answer leaves it to the others, and there are none")

	a.write(permission(`4`, "r1"))
	asked = g.next()
	g.Close()
	a.sync()
	late := h.connect(Steer)
	late.load("r1")
	assert.Equal(t, asked, late.next(), "it waits for who comes next")
	late.answer(asked, yes)
	assert.Equal(t, `{"jsonrpc":"2.0","id":4,"result":`+yes+`}`, a.read())
	viewer.Close()
}

// In clients' own sessions people are always asked, of whatever it is; the policy answers only where nobody is there.
func TestTheQuestionsOfClientsOwnSessions(t *testing.T) {
	h := newHouse(t, func(c *Config) { c.Policy = turn.Allow })
	a := h.rise(0, "", false)
	g := h.connect(Steer)
	g.open(a, "s1")
	a.write(permission(`1`, "s1"))
	asked := g.next()
	g.answer(asked, denied)
	assert.Equal(t, `{"jsonrpc":"2.0","id":1,"result":`+denied+`}`, a.read())
	a.write(`{"jsonrpc":"2.0","id":2,"method":"_x/what","params":{"sessionId":"s1","x":1.0}}`)
	asked = g.next()
	assert.Equal(t, `{"jsonrpc":"2.0","id":`+idOf(asked)+`,"method":"_x/what","params":{"sessionId":"s1","x":1.0}}`, asked)
	g.answer(asked, `[1.0]`)
	assert.Equal(t, `{"jsonrpc":"2.0","id":2,"result":[1.0]}`, a.read())

	// The agent takes one back; a cancel answers what is open before it reaches the agent (goose would wait for ever).
	a.write(permission(`3`, "s1"))
	asked = g.next()
	a.write(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":3}}`)
	assert.Equal(t, told(asked), g.next())
	assert.Contains(t, a.read(), `"id":3,"error":{"code":-32800`)
	a.write(permission(`4`, "s1"))
	asked = g.next()
	g.Receive([]byte(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s1"}}`))
	assert.Equal(t, `{"jsonrpc":"2.0","id":4,"result":{"outcome":{"outcome":"cancelled"}}}`, a.read())
	assert.Equal(t, `{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s1"}}`, a.read())
	assert.Equal(t, told(asked), g.next())

	g.Close()
	a.write(permission(`5`, "s1"), `{"jsonrpc":"2.0","id":6,"method":"_x/what","params":{"sessionId":"s1"}}`)
	assert.Equal(t, `{"jsonrpc":"2.0","id":5,"result":`+`{"outcome":{"optionId":"yes","outcome":"selected"}}`+`}`, a.read())
	assert.Equal(t, `{"jsonrpc":"2.0","id":6,"error":{"code":-32601,"message":"method not found: _x/what"}}`, a.read())
}

// Nobody but people is asked what a delivered run's agent wants beyond permission.
func TestOtherRequestsInADeliveredRunAreRefused(t *testing.T) {
	h := newHouse(t)
	a := h.rise(0, "", false)
	a.begin("r1", "u1")
	g := h.connect(Steer)
	g.load("r1")
	a.write(`{"jsonrpc":"2.0","id":7,"method":"fs/read_text_file","params":{"sessionId":"r1"}}`, `{"jsonrpc":"2.0","id":8,"method":"_y"}`)
	assert.Contains(t, a.read(), `"id":7,"error":{"code":-32601`)
	assert.Contains(t, a.read(), `"id":8,"error":{"code":-32601`)
	a.sync()
	g.silent()
}

// What is open when the agent dies is open no more, and secrets are in no question.
func TestQuestionsEndWithTheAgentAndHaveNoSecrets(t *testing.T) {
	h := newHouse(t)
	a := h.rise(0, "", false)
	a.begin("r1", "u1")
	g := h.connect(Steer)
	g.load("r1")
	a.write(`{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{"sessionId":"r1","options":[],"x":"the-secret-of-the-house"}}`)
	asked := g.next()
	require.Equal(t, "session/request_permission", methodOf(asked))
	assert.NotContains(t, asked, "the-secret-of-the-house")
	a.die()
	assert.Contains(t, g.next(), `"_meta":{"hearth":{"unanswered":"session/prompt"}}`)
	assert.Equal(t, told(asked), g.next())
	assert.Empty(t, h.hub.open)
	g.answer(asked, yes)
}
