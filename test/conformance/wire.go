package conformance

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

func wireCases() []Case {
	return []Case{
		{ID: "W-1", Title: "the listener is up for the whole life of the harness, drain included", needs: drains, run: upWhileDraining},
		{ID: "W-2", Title: "the listener speaks HTTP/1.1", run: func(t *trial) {
			a := t.send(t.challenge())
			t.check(a.proto == "HTTP/1.1", "expected an HTTP/1.1 response, got %s", a.proto)
		}},
		{ID: "W-3", Title: "bodies are JSON in UTF-8", run: func(t *trial) {
			k := fresh()
			t.finished(k)
			for _, c := range []call{t.challenge(), t.call(http.MethodGet, k.path(), nil), t.call(http.MethodGet, wire.RunsPath+"?since=0", nil)} {
				a := t.send(c)
				media, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
				t.check(media == "application/json", "%s: expected Content-Type application/json, got %q", a.what, media)
				t.check(json.Valid(a.body) && utf8.Valid(a.body), "%s: expected a JSON value in UTF-8", a.what)
			}
		}},
		{ID: "W-4", Title: "a connection stays open after the answer to a challenge", run: connectionIsKept},
	}
}

// connectionIsKept does what a caller does: it challenges, then sends over the connection on which the target has just proven itself.
func connectionIsKept(t *trial) {
	conn, err := t.kit.dial(t.ctx)
	if err != nil {
		t.fail("%v", err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(min(callTimeout, t.kit.Patience)))
	in := bufio.NewReader(io.LimitReader(conn, 4*wire.MaxAnswerBytes))
	first, second := t.challenge(), t.call(http.MethodGet, wire.RunsPath+"?since=0", nil)
	first.more = true
	for _, c := range []call{first, first, second} {
		if c.more {
			c.challenge = []string{nonce()}
		}
		a := answer{asked: t.kit.request(c)}
		_, err := conn.Write(t.kit.encode(c))
		response, failed := http.ReadResponse(in, &http.Request{Method: c.method})
		if err = errors.Join(err, failed); err == nil {
			a.status, a.header = response.StatusCode, response.Header
			a.body, err = io.ReadAll(io.LimitReader(response.Body, wire.MaxAnswerBytes))
			_ = response.Body.Close()
		}
		t.check(err == nil, "%s %s: expected an answer over a connection that was challenged before, got none", c.method, c.target)
		t.check(a.status == http.StatusOK && t.kit.verifies(a), "%s %s: expected 200 with a MAC that verifies over a connection that was challenged before, got %d", c.method, c.target, a.status)
		t.check(!c.more || !response.Close, "expected the connection to stay open after the answer to a challenge")
	}
}

func upWhileDraining(t *trial) {
	k := fresh()
	t.running(k)
	t.drain()
	t.hello()
	t.want(t.get(k), http.StatusOK, "")
}
