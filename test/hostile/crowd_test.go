package hostile

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"

	"github.com/hearthdev/hearth/challenge"
	"github.com/hearthdev/hearth/delivery/server"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// head is the beginning of a request that both ports would read on: well-formed, with a challenge, for this Pod, of a stranger.
func (a *assault) head(method, more string) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n%s: %s\r\n%s: %s\r\n%s", method, wire.ChallengePath, a.Identity.PodName,
		wire.HeaderChallenge, strings.Repeat("A", challenge.Length), wire.HeaderProof, strings.Repeat("A", challenge.Length), more)
}

// slowly writes a byte a tick; whatever comes back is left unread.
func (a *assault) slowly(text string) func(net.Conn) {
	return func(conn net.Conn) {
		for i := range len(text) {
			if _, err := conn.Write([]byte{text[i]}); err != nil {
				return
			}
			a.pause(tick)
		}
	}
}

// stay writes a text and then stays until it is thrown out.
func stay(text string) func(net.Conn) {
	all := []byte(text)
	return func(conn net.Conn) {
		if _, err := conn.Write(all); err == nil {
			_, _ = io.Copy(io.Discard, conn)
		}
	}
}

// pump writes a text and then more and more, until it is thrown out.
func pump(text, more string) func(net.Conn) {
	block := bytes.Repeat([]byte(more), 1+8<<10/len(more))
	return func(conn net.Conn) {
		_, err := io.WriteString(conn, text)
		for err == nil {
			_, err = conn.Write(block)
		}
	}
}

const crowd = 2000

// many is as many headers as just fit.
var many = func() string {
	var names strings.Builder
	for i := range 1100 {
		fmt.Fprintf(&names, "%x:\r\n", i)
	}
	return names.String()
}()

// slow are attacks by those who have time.
var slow = []attack{
	{name: "2,000 clients, a byte a second", lasts: 2 * tick, begin: func(a *assault) {
		// On a port with TLS these bytes are a ClientHello that never comes to its end.
		text := "GET /healthz HTTP/1.1\r\nHost: x\r\n"
		hello := "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("x", 32)
		a.crowd(a.both(crowd), a.raw, func(conn net.Conn) {
			if a.scheme == string(wire.SchemeHTTPS) && conn.RemoteAddr().String() == a.delivery {
				a.slowly(hello)(conn)
			} else {
				a.slowly(text)(conn)
			}
		})
	}},
	{name: "2,000 connect and never speak", begin: func(a *assault) { a.crowd(a.both(crowd), a.raw, stay("")) }},
	{name: "too many: headers, a byte a second", lasts: tick, begin: func(a *assault) { a.crowd(a.full(), a.dial, a.slowly(a.head("GET", ""))) }},
	{name: "too many: bodies, a byte a second", lasts: tick, begin: func(a *assault) {
		a.crowd(a.full(), a.dial, func(conn net.Conn) {
			if _, err := io.WriteString(conn, a.head("POST", "Content-Length: 1000000\r\n\r\n")); err == nil {
				a.slowly(strings.Repeat("x", 60))(conn)
			}
		})
	}},
	{name: "too many: with 1,100 headers and no body yet", begin: func(a *assault) {
		a.crowd(a.full(), a.dial, stay(a.head("POST", "Content-Length: 9\r\n"+many+"\r\n")))
	}},
	{name: "too many: with 1,100 headers that have no end", begin: func(a *assault) { a.crowd(a.full(), a.dial, stay(a.head("POST", many))) }},
	{name: "too many: with 10,000 headers", begin: func(a *assault) {
		a.crowd(a.full(), a.dial, stay(a.head("GET", strings.Repeat("a:\r\n", 10_000)+"\r\n")))
	}},
	{name: "too many: half-closed in the middle of a request", begin: func(a *assault) {
		a.crowd(a.full(), a.dial, func(conn net.Conn) {
			if _, err := io.WriteString(conn, a.head("POST", "Content-Length: 10\r\n\r\nhalf")); err == nil {
				_ = conn.(interface{ CloseWrite() error }).CloseWrite()
				_, _ = io.Copy(io.Discard, conn)
			}
		})
	}},
	{name: "too many: closed in the middle of a body", lasts: tick, begin: func(a *assault) {
		a.crowd(a.full(), a.dial, func(conn net.Conn) { _, _ = io.WriteString(conn, a.head("POST", "Content-Length: 10\r\n\r\nhalf")) })
	}},
	{name: "too many: wait for 100-continue and send nothing", begin: func(a *assault) {
		a.crowd(a.full(), a.dial, stay(a.head("POST", "Content-Length: 1000000\r\nExpect: 100-continue\r\n\r\n")))
	}},
}

// greedy are attacks by those who have bandwidth.
var greedy = []attack{
	{name: "128 bodies of 1 MiB less a byte, declared", lasts: tick / 4, begin: func(a *assault) {
		a.crowd(a.alone(server.MaxConnections), a.dial, stay(a.head("POST", fmt.Sprintf("Content-Length: %d\r\n\r\n", wire.MaxBodyBytes))+strings.Repeat("x", wire.MaxBodyBytes-1)))
	}},
	{name: "128 bodies of 1 MiB less a byte, chunked", lasts: tick / 4, begin: func(a *assault) {
		chunk := "4000\r\n" + strings.Repeat("x", 0x4000) + "\r\n"
		a.crowd(a.alone(server.MaxConnections), a.dial, stay(a.head("POST", "Transfer-Encoding: chunked\r\n\r\n")+strings.Repeat(chunk, wire.MaxBodyBytes/0x4000-1)))
	}},
	{name: "20 bodies without end, declared", lasts: tick / 4, begin: func(a *assault) {
		a.crowd(a.both(20), a.dial, pump(a.head("POST", "Content-Length: 1000000000000\r\n\r\n"), "x"))
	}},
	{name: "20 bodies without end, chunked", lasts: tick / 4, begin: func(a *assault) {
		a.crowd(a.both(20), a.dial, pump(a.head("POST", "Transfer-Encoding: chunked\r\n\r\n"), "10\r\nxxxxxxxxxxxxxxxx\r\n"))
	}},
	{name: "20 chunks with an extension without end", lasts: tick / 4, begin: func(a *assault) {
		a.crowd(a.both(20), a.dial, pump(a.head("POST", "Transfer-Encoding: chunked\r\n\r\n1;"), "x"))
	}},
	{name: "20 bodies of one-byte chunks with extensions", lasts: tick / 4, begin: func(a *assault) {
		a.crowd(a.both(20), a.dial, pump(a.head("POST", "Transfer-Encoding: chunked\r\n\r\n"), "1;"+strings.Repeat("y", 2000)+"\r\nx\r\n"))
	}},
	{name: "20 trailers without end", lasts: tick / 4, begin: func(a *assault) {
		a.crowd(a.both(20), a.dial, pump(a.head("POST", "Trailer: T\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"), "T: x\r\n"))
	}},
	{name: "20 headers without end", lasts: tick / 4, begin: func(a *assault) { a.crowd(a.both(20), a.dial, pump(a.head("GET", ""), "X-More: x\r\n")) }},
	{name: "20 request lines without end", lasts: tick / 4, begin: func(a *assault) { a.crowd(a.both(20), a.dial, pump("GET /", "x")) }},
	{name: "20 pipeline requests and read no answer", lasts: tick / 4, begin: func(a *assault) {
		a.crowd(a.both(20), a.dial, pump("", a.head("GET", "\r\n")))
	}},
	{name: "valid challenges without a proof, as fast as can be", lasts: tick / 4, begin: func(a *assault) {
		a.crowd(a.both(8), a.dial, func(conn net.Conn) {
			go func() { _, _ = io.Copy(io.Discard, conn) }()
			pump("", a.head("POST", "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"))(conn)
		})
	}},
	{name: "10,000 quick connects", begin: func(a *assault) { a.quick(10_000) }},
}

// quick connects so many times, to one port and the other in turn, and leaves at once: half of them by a reset.
func (a *assault) quick(n int64) {
	var left atomic.Int64
	left.Store(n)
	for range 16 {
		a.work.Go(func() {
			for i := left.Add(-1); i >= 0; i = left.Add(-1) {
				address := []string{a.acp, a.delivery}[i%2]
				conn, err := new(net.Dialer).DialContext(a.pod.t.Context(), "tcp", address)
				if err != nil {
					continue
				}
				a.clients.Add(1)
				if i%4 < 2 {
					_ = conn.(*net.TCPConn).SetLinger(0)
				}
				_ = conn.Close()
			}
		})
	}
}
