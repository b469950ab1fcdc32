package endpoint

import "time"

// How long things may take, and how often something is said so that no proxy takes a connection for idle.
const (
	pingEvery    = 20 * time.Second
	pongTimeout  = 45 * time.Second // a ping waits behind what lies in buffers on a slow way
	stallTimeout = 30 * time.Second
	helloTimeout = 30 * time.Second
	bodyTimeout  = 2 * time.Minute
	orphanAfter  = time.Minute
	lastWords    = 100 * time.Millisecond // for each, when the connection ends
)

// pace is those, for tests that have less time.
type pace struct {
	ping   time.Duration // between signs of life
	pong   time.Duration // until the answer to one
	stall  time.Duration // until a client takes another piece of what is written to it
	hello  time.Duration // until the first message, and until its answer
	body   time.Duration // a message by POST
	orphan time.Duration // a client of streamable HTTP without a stream
}

var usual = pace{ping: pingEvery, pong: pongTimeout, stall: stallTimeout, hello: helloTimeout, body: bodyTimeout, orphan: orphanAfter}
