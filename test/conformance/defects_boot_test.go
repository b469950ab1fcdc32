package conformance

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/hearthdev/hearth/challenge"
	"github.com/hearthdev/hearth/challenge/pinned"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/harness"
)

// secureDefects are about the listener.
func secureDefects() []defect {
	overTLS := func(name, fails string, change func(*tls.Config)) defect {
		return defect{name: name, fails: fails, options: overHTTPS, harness: func(o *harness.Options) {
			o.Listen = func(l net.Listener) net.Listener { return tls.NewListener(l, podConfig(change)) }
		}}
	}
	return []defect{
		overTLS("speaks TLS 1.2", "T-1", func(c *tls.Config) { c.MinVersion = tls.VersionTLS12 }),
		overTLS("shows a key of its own", "T-2", func(c *tls.Config) {
			_, key, err := ed25519.GenerateKey(rand.Reader)
			if err != nil {
				panic(err)
			}
			bare := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
			der, err := x509.CreateCertificate(rand.Reader, bare, bare, key.Public(), key)
			if err != nil {
				panic(err)
			}
			c.Certificates = []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}
		}),
		overTLS("offers HTTP/2", "T-3", func(c *tls.Config) { c.NextProtos = []string{"h2", "http/1.1"} }),
		overTLS("resumes sessions", "T-5", func(c *tls.Config) { c.SessionTicketsDisabled = false }),
		{name: "answers in the clear too", fails: "T-4", options: overHTTPS, harness: func(o *harness.Options) {
			o.Listen = func(l net.Listener) net.Listener { return either{l} }
		}},
		{name: "takes the first hundred connections", fails: "L-2", harness: func(o *harness.Options) {
			o.Listen = func(l net.Listener) net.Listener { return hundred{l, make(chan struct{}, 100)} }
		}},
	}
}

func overHTTPS(_ *liar, o *Options) { o.Target.Scheme = "https" }

func podConfig(change func(*tls.Config)) *tls.Config {
	keys, err := challenge.Derive([]byte(harness.Root), "pod-1")
	if err != nil {
		panic(err)
	}
	c := pinned.Server(keys)
	change(c)
	return c
}

// either speaks TLS to whom begins with a handshake, and HTTP to everybody else.
type either struct{ net.Listener }

func (e either) Accept() (net.Conn, error) {
	conn, err := e.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &peeked{Conn: conn}, nil
}

type peeked struct {
	net.Conn
	over net.Conn
}

func (p *peeked) Read(b []byte) (int, error) {
	if p.over == nil {
		first := make([]byte, 1)
		if _, err := p.Conn.Read(first); err != nil {
			return 0, err
		}
		again := &prefixed{p.Conn, first}
		p.over = again
		if first[0] == 0x16 {
			p.over = tls.Server(again, podConfig(func(*tls.Config) {}))
		}
	}
	return p.over.Read(b)
}

func (p *peeked) Write(b []byte) (int, error) { return p.over.Write(b) }

type prefixed struct {
	net.Conn
	first []byte
}

func (p *prefixed) Read(b []byte) (int, error) {
	if len(p.first) > 0 {
		n := copy(b, p.first)
		p.first = p.first[n:]
		return n, nil
	}
	return p.Conn.Read(b)
}

// hundred accepts no more while a hundred connections are open.
type hundred struct {
	net.Listener
	room chan struct{}
}

func (h hundred) Accept() (net.Conn, error) {
	conn, err := h.Listener.Accept()
	if err != nil {
		return nil, err
	}
	select {
	case h.room <- struct{}{}:
		return &leaving{Conn: conn, room: h.room}, nil
	default:
		_ = conn.Close()
		return h.Accept()
	}
}

type leaving struct {
	net.Conn
	room chan struct{}
	left bool
}

func (l *leaving) Close() error {
	if !l.left {
		l.left = true
		<-l.room
	}
	return l.Conn.Close()
}

// bootDefects show at a start, a restart or a drain.
//
//nolint:gocyclo // a table
func bootDefects() []defect {
	starts := func(name, fails, ignored string) defect {
		return defect{name: name, fails: fails, boots: true, options: func(l *liar, o *Options) {
			o.Start = func(ctx context.Context, environ []string) error {
				if why := contradicts(l.house, environ); why != "" && why != ignored {
					return assert.AnError
				} else if why == ignored {
					return nil
				}
				<-ctx.Done()
				return ctx.Err()
			}
		}}
	}
	return []defect{
		starts("starts without an identity", "I-1", "missing"),
		starts("starts under any hostname", "I-2", "hostname"),
		starts("starts with a short secret", "K-1", "token"),
		{name: "loses its journal at a restart", fails: "C-9 E-2 A-2 A-3 A-5 A-6", boots: true, options: func(l *liar, o *Options) {
			o.Restart = func(context.Context) error {
				l.house.Stop()
				l.house.LoseJournal()
				l.house.Boot()
				return nil
			}
		}},
		{name: "loses what it accepted at a restart", fails: "A-2 A-5 A-6", boots: true, options: noteRestart, response: func(l *liar, x *exchange) {
			m := x.shown()
			if x.Method == http.MethodGet && before(text(m["acceptedAt"]), l.recall("restart")) && (m["finishedAt"] == nil || before(l.recall("restart"), text(m["finishedAt"]))) {
				x.refuse(wire.NewProblem(wire.CodeUnknown, ""))
			}
		}},
		{name: "changes results at a restart", fails: "A-3", boots: true, response: onEnvelope(func(l *liar, e map[string]any) { e["message"] = fmt.Sprint("boot ", l.boot()) })},
		{name: "calls what was interrupted crashed", fails: "A-5", boots: true, response: onEnvelope(func(_ *liar, e map[string]any) {
			if e["outcome"] == "Interrupted" {
				e["outcome"], e["reason"] = "Failed", "AgentCrashed"
			}
		})},
		{name: "interrupts what only waited", fails: "A-6", boots: true, options: noteRestart, response: onState(func(l *liar, _ *exchange, m map[string]any) {
			if e, ok := m["envelope"].(map[string]any); ok && before(text(m["acceptedAt"]), l.recall("restart")) && before(l.recall("restart"), text(m["startedAt"])) {
				e["outcome"], e["reason"] = "Interrupted", "Interrupted"
			}
		})},
		{name: "takes requests of an earlier boot", fails: "C-1 E-29 P-7", boots: true, request: func(l *liar, x *exchange) {
			if x.proven && x.URL.Path != wire.ChallengePath {
				x.Header.Set(wire.HeaderBoot, tells(l.ask(x, http.MethodPost, wire.ChallengePath, challengeBody(l))).Boot)
			}
		}},
		{name: "closes its listener at SIGTERM", fails: "W-1 H-3 H-4 H-5 H-6 H-7", boots: true, options: func(l *liar, o *Options) {
			o.Drain = func(context.Context) error {
				l.house.Stop()
				return nil
			}
		}},
		{name: "does not say when to come again while draining", fails: "H-3", boots: true, response: onRefusal(wire.CodeDraining, func(x *exchange) { x.header.Del("Retry-After") })},
		{name: "keeps what waits while draining", fails: "H-4", boots: true, response: onState(func(l *liar, x *exchange, m map[string]any) {
			if l.recall("drains") != "" && m["state"] == "voided" && m["acceptedAt"] != nil {
				m["state"] = "accepted"
			}
		}), options: noteDrain},
		{name: "cancels what runs when it drains", fails: "H-5", boots: true, options: func(l *liar, o *Options) {
			drain := o.Drain
			o.Drain = func(ctx context.Context) error {
				_ = drain(ctx)
				return drain(ctx)
			}
		}},
		{name: "goes before all was recorded", fails: "H-6", boots: true, options: noteDrain, response: func(l *liar, x *exchange) {
			ended := l.recall("drains") // "once" until something finished, then when
			if before(ended, time.Now().Add(-time.Second).UTC().Format(time.RFC3339Nano)) {
				panic(http.ErrAbortHandler) // nobody is there any more
			}
			if ended == "once" && x.shown()["state"] == "finished" {
				l.remember("drains", time.Now().UTC().Format(time.RFC3339Nano))
			}
		}},
		{name: "ignores a second SIGTERM", fails: "H-7", boots: true, options: func(l *liar, o *Options) {
			drain, last := o.Drain, 0
			o.Drain = func(ctx context.Context) error {
				if last == l.boot() {
					return nil
				}
				last = l.boot()
				return drain(ctx)
			}
		}},
	}
}

// noteRestart has a defect remember when the last restart was, noteDrain that it drains.
func noteRestart(l *liar, o *Options) {
	restart := o.Restart
	o.Restart = func(ctx context.Context) error {
		l.remember("restart", time.Now().UTC().Format(time.RFC3339Nano))
		return restart(ctx)
	}
}

func noteDrain(l *liar, o *Options) {
	drain := o.Drain
	o.Drain = func(ctx context.Context) error {
		l.remember("drains", "once")
		return drain(ctx)
	}
}

// before compares two times as they are on the wire; false when one is none.
func before(a, b string) bool {
	x, errX := time.Parse(time.RFC3339Nano, a)
	y, errY := time.Parse(time.RFC3339Nano, b)
	return errX == nil && errY == nil && x.Before(y)
}

func text(v any) string {
	s, _ := v.(string)
	return s
}
