package router

import "github.com/go-json-experiment/json/jsontext"

// Said is one message between a connection and its agent.
type Said struct {
	Frame
	// Session is the session that the message belongs to; an answer belongs to that of its request, or to the one it opens. "" for
	// what belongs to the connection.
	Session string
	// Request is the method of a request or notification, and of what an answer answers.
	Request string
	// ToAgent tells its direction. Unsaid is an answer that the connection makes up for a request that the agent will never answer.
	ToAgent, Unsaid bool
	// By is whom Forward, ForwardNotification or Request.Forward was told that the message is from.
	By any
}

// Watcher is told of everything that is said, in order for each session: a request before its answer, an answer after all that
// the agent said before it. It is called by the goroutine that reads the agent and by those that send, and must not block.
type Watcher interface {
	// Said tells whether the session is the watcher's own, so that nobody else needs to know of the message.
	Said(Said) (mine bool)
	// Asked brings a request of the agent that no Session takes; false: it is not the watcher's either.
	Asked(*Request) (taken bool)
	// Heard says that of what the agent has sent, all or a good deal was told since the last time. It is called by the goroutine that
	// reads the agent, so that work which is cheaper for several messages can wait until then.
	Heard()
}

// say tells the watcher of a message.
func (c *Conn) say(s Said) bool {
	return c.cfg.Watcher != nil && c.cfg.Watcher.Said(s)
}

// unanswered tells the watcher of a call that will have no answer.
func (c *Conn) unanswered(call *Call, why string) {
	if c.cfg.Watcher == nil {
		return
	}
	f, _ := Parse(trimNewline(failure(jsontext.Value(idText(call.id)), codeInternal, why)), Lenient)
	c.say(Said{Frame: f, Session: call.session, Request: call.method, Unsaid: true})
}

func trimNewline(line []byte) []byte { return line[:len(line)-1] }
