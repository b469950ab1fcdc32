package endpoint

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/coder/websocket"

	"github.com/hearthdev/hearth/runtime/attach"
)

// parting is why a client's connection ends, as a WebSocket client is told it (RFC 6455, section 7.4).
type parting struct {
	code websocket.StatusCode
	text string
}

func (p *parting) Error() string { return p.text }

var (
	errRestart = &parting{websocket.StatusServiceRestart, "no agent answers: connect again, and load the session again"}
	errAway    = &parting{websocket.StatusGoingAway, "the harness ends"}
	errLeft    = &parting{websocket.StatusNormalClosure, "the client left"}
	errDead    = &parting{websocket.StatusGoingAway, "the client answers no ping"}
	errStalled = &parting{websocket.StatusTryAgainLater, "the client does not read what is sent to it"}
	errHello   = &parting{websocket.StatusPolicyViolation, "expected initialize within 30 s"}
	errText    = &parting{websocket.StatusInvalidFramePayloadData, "expected UTF-8"}
	errCrowded = &parting{websocket.StatusTryAgainLater, "clients send more at once than there is room for: try again"}
)

// guest is one client's connection, whatever its transport.
type guest struct {
	Client
	id     string // Acp-Connection-Id
	access attach.Access
	way    string          // the transport
	ctx    context.Context // ends with the connection; its cause is a parting
	end    context.CancelCauseFunc
}

// why is why the connection ended.
func (in *guest) why() *parting {
	var p *parting
	if errors.As(context.Cause(in.ctx), &p) {
		return p
	}
	return errLeft
}

// next waits for the next message to the client. When the connection ends and the client is still there, it hands out what the agent's
// end left to say; lastWords is how long that may take. With an error the guest's context has ended.
func (in *guest) next() (attach.Message, error) {
	message, err := in.Next(in.ctx)
	if err == nil {
		return message, nil
	}
	// Unless the connection ends for another reason, the client is too slow, and may come again.
	in.end(&parting{websocket.StatusTryAgainLater, err.Error()})
	if why := in.why(); why != errRestart && why != errAway {
		return attach.Message{}, why
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(in.ctx), lastWords)
	defer cancel()
	message, err = in.Next(ctx)
	return message, err //nolint:wrapcheck // nobody is told
}

// guests are all of them.
type guests struct {
	clients  Clients
	limit    int
	attached func(access attach.Access, transport string, more int)

	mu      sync.Mutex
	shut    *parting // why nobody comes in
	all     map[*guest]struct{}
	viewers int
	gone    sync.WaitGroup
}

func newGuests(clients Clients, limit int, attached func(attach.Access, string, int)) *guests {
	if attached == nil {
		attached = func(attach.Access, string, int) {}
	}
	return &guests{clients: clients, limit: limit, attached: attached, all: map[*guest]struct{}{}}
}

// The transports.
const (
	byWebSocket  = "websocket"
	byStreamable = "http"
)

// maxViewers leaves a quarter of the room to those who may steer.
func (g *guests) maxViewers() int { return max(1, g.limit*3/4) }

// enter lets a client in. The error says why not, and may be shown to it.
func (g *guests) enter(r *http.Request, access attach.Access, transport string) (*guest, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		return nil, g.shut
	}
	if len(g.all) >= g.limit || access == attach.View && g.viewers >= g.maxViewers() {
		return nil, fmt.Errorf("%d clients are attached: try again when one has left", len(g.all))
	}
	client, err := g.clients.Connect(access)
	if err != nil {
		return nil, fmt.Errorf("attach: %w", err)
	}
	in := &guest{Client: client, id: rand.Text(), access: access, way: transport}
	in.ctx, in.end = context.WithCancelCause(context.WithoutCancel(r.Context()))
	g.all[in] = struct{}{}
	if access == attach.View {
		g.viewers++
	}
	g.gone.Add(1)
	g.attached(access, transport, 1)
	return in, nil
}

// leave is called once, when nothing serves the client any more.
func (g *guests) leave(in *guest) {
	in.end(errLeft)
	in.Close()
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.all, in)
	if in.access == attach.View {
		g.viewers--
	}
	g.attached(in.access, in.way, -1)
	g.gone.Done()
}

// welcome lets clients in again.
func (g *guests) welcome() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = nil
}

// farewell ends the connections of all clients, without waiting, and lets nobody in any more: a handshake may be under way.
func (g *guests) farewell(why *parting) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = why
	for in := range g.all {
		in.end(why)
	}
}

func (g *guests) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.all)
}

// wait waits until all have left, after a farewell.
func (g *guests) wait() { g.gone.Wait() }
