package hostile

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/hearthdev/hearth/internal/gate"
	"github.com/hearthdev/hearth/runtime/endpoint"
)

// upgrade is the request for a WebSocket of somebody who has the view key; frames follow it at once.
func upgrade(key string) string {
	return "GET /acp HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
		"Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nX-Secret-Key: " + key + "\r\n\r\n"
}

// text is the beginning of a client's text frame of so many bytes, masked with zeros.
func text(size int) string {
	return string([]byte{0x81, 0xff, 0, 0, 0, 0, byte(size >> 24), byte(size >> 16), byte(size >> 8), byte(size), 0, 0, 0, 0})
}

func framed(message string) string { return text(len(message)) + message }

// requests are HTTP/2 requests, each with as many headers as fit, whose answers cannot be written: the window for them is closed.
func requests(n uint32, more ...hpack.HeaderField) string {
	var all, block bytes.Buffer
	all.WriteString(http2.ClientPreface)
	framer, head := http2.NewFramer(&all, nil), hpack.NewEncoder(&block)
	_ = framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	for i := range n {
		block.Reset()
		fields := append([]hpack.HeaderField{
			{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: "/acp"}, {Name: ":authority", Value: "x"},
		}, more...)
		for h := range 150 {
			fields = append(fields, hpack.HeaderField{Name: fmt.Sprintf("x-%d", h), Value: "y", Sensitive: true})
		}
		for _, f := range fields {
			_ = head.WriteField(f) // into memory
		}
		_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true})
	}
	return all.String()
}

// everybody is somewhat more than port 4000 has room for.
func (a *assault) everybody() []front { return a.fronts(front{a.acp, endpoint.MaxConnections * 9 / 8}) }

const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}`

// people are attacks on port 4000, by those who have the view key and by those who have none.
var people = []attack{
	{name: "HTTP/2: few requests each, answers not taken", lasts: tick, begin: func(a *assault) {
		a.crowd(a.everybody(), a.raw, stay(requests(gate.MaxStrangersRequests)))
	}},
	{name: "HTTP/2: many requests each, answers not taken", lasts: tick, begin: func(a *assault) {
		a.crowd(a.everybody(), a.raw, stay(requests(60)))
	}},
	{name: "HTTP/2: headers that go on and on", lasts: tick / 4, begin: func(a *assault) {
		begun := requests(0) + "\x00\x00\x01\x01\x00\x00\x00\x00\x01\x82" // HEADERS of one byte without END_HEADERS
		a.crowd(a.fronts(front{a.acp, 20}), a.raw, pump(begun, "\x00\x00\x01\x09\x00\x00\x00\x00\x01\x84"))
	}},
	{name: "HTTP/2: pings without end", lasts: tick / 4, begin: func(a *assault) {
		a.crowd(a.fronts(front{a.acp, 20}), a.raw, pump(requests(0), "\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678"))
	}},
	{name: "view key: connections that are kept", begin: func(a *assault) {
		a.crowd(a.everybody(), a.raw, stay("GET /acp HTTP/1.1\r\nHost: x\r\nX-Secret-Key: "+viewKey+"\r\n\r\n"))
	}},
	{name: "view key: WebSockets that say nothing", begin: func(a *assault) { a.crowd(a.everybody(), a.raw, stay(upgrade(viewKey))) }},
	{name: "view key: WebSockets amid a message", lasts: tick, begin: func(a *assault) {
		a.crowd(a.everybody(), a.raw, stay(upgrade(viewKey)+text(endpoint.MaxViewMessageBytes)+strings.Repeat("x", endpoint.MaxViewMessageBytes-1)))
	}},
	{name: "view key: messages that are too long", lasts: tick / 4, begin: func(a *assault) {
		a.crowd(a.fronts(front{a.acp, 20}), a.raw, pump(upgrade(viewKey)+text(1<<30), "x"))
	}},
	{name: "view key: bodies that do not come", lasts: tick, begin: func(a *assault) {
		a.crowd(a.everybody(), a.raw, stay("POST /acp HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 65536\r\nX-Secret-Key: "+viewKey+
			"\r\n\r\n"+strings.Repeat(" ", 65535)))
	}},
	{name: "view key: questions, and no answer is read", lasts: tick, begin: func(a *assault) {
		a.crowd(a.fronts(front{a.acp, 20}), a.raw, pump(upgrade(viewKey)+framed(hello), framed(`{"jsonrpc":"2.0","id":2,"method":"session/list"}`)))
	}},
	{name: "view key: sessions of long names, and no answer is read", lasts: tick, begin: func(a *assault) {
		a.crowd(a.fronts(front{a.acp, 20}), a.raw, pump(upgrade(viewKey)+framed(hello),
			framed(`{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"`+strings.Repeat("x", endpoint.MaxViewMessageBytes*7/8)+`"}}`)))
	}},
	{name: "view key: what is no message, without end", lasts: tick / 4, begin: func(a *assault) {
		a.crowd(a.fronts(front{a.acp, 20}), a.raw, func(conn net.Conn) {
			go func() { _, _ = io.Copy(io.Discard, conn) }()
			pump(upgrade(viewKey)+framed(hello), framed(`[`))(conn)
		})
	}},
	{name: "view key: connections by HTTP that nobody reads", lasts: tick, begin: func(a *assault) {
		one := fmt.Sprintf("POST /acp HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\nX-Secret-Key: %s\r\n\r\n%s", len(hello), viewKey, hello)
		a.crowd(a.fronts(front{a.acp, 20}), a.raw, func(conn net.Conn) {
			go func() { _, _ = io.Copy(io.Discard, conn) }()
			pump("", one)(conn)
		})
	}},
}
