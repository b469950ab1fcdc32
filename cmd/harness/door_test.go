package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/transcript"
)

const (
	viewKey  = "view-key-0123456789-0123456789-0123456789"
	steerKey = "steer-key-0123456789-0123456789-0123456789"
)

// attached is a person's client by WebSocket.
type attached struct {
	t    *testing.T
	conn *websocket.Conn
}

func (b *booted) attach(key string) *attached {
	b.t.Helper()
	conn, _, err := websocket.Dial(b.t.Context(), "ws://"+b.acp()+"/acp", &websocket.DialOptions{HTTPHeader: http.Header{"X-Secret-Key": {key}}}) //nolint:bodyclose // websocket.Dial says that it needs no closing
	require.NoError(b.t, err, b.log.String())
	b.t.Cleanup(func() { _ = conn.CloseNow() })
	conn.SetReadLimit(-1)
	a := &attached{b.t, conn}
	a.ask(`{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":1}}`)
	return a
}

// ask sends a request and passes over what comes before its answer.
func (a *attached) ask(request string) string {
	a.t.Helper()
	require.NoError(a.t, a.conn.Write(a.t.Context(), websocket.MessageText, []byte(request)))
	return a.until(`"result":`)
}

// until reads on to a message that has such a text.
func (a *attached) until(text string) string {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	for {
		_, data, err := a.conn.Read(ctx)
		require.NoError(a.t, err, "waiting for %s", text)
		if strings.Contains(string(data), text) {
			return string(data)
		}
	}
}

// closed reads on to the close frame.
func (a *attached) closed() websocket.StatusCode {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	for {
		if _, _, err := a.conn.Read(ctx); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}

// load attaches to the session of the only run.
func (a *attached) load() {
	a.t.Helper()
	var list struct {
		Result struct {
			Sessions []struct {
				SessionID string `json:"sessionId"`
				Cwd       string `json:"cwd"`
			} `json:"sessions"`
		} `json:"result"`
	}
	require.NoError(a.t, json.Unmarshal([]byte(a.ask(`{"jsonrpc":"2.0","id":1,"method":"session/list","params":{}}`)), &list))
	require.Len(a.t, list.Result.Sessions, 1)
	a.ask(`{"jsonrpc":"2.0","id":2,"method":"session/load","params":{"sessionId":"` + list.Result.Sessions[0].SessionID + `","cwd":"/","mcpServers":[]}}`)
}

// SPEC.md, Drain and Transports: who watches a run sees it to its end although the harness drains, and is told when that ends. The
// transcript that is followed ends with the run.
func TestWhoWatchesStaysThroughADrain(t *testing.T) {
	p := newPlace(t)
	p.env = []string{envView + "=" + viewKey, envSteer + "=" + steerKey}
	b := p.ready()
	former := b.acp()
	gate := filepath.Join(t.TempDir(), "gate")
	b.accepted("run", "say: first ;; wait: "+gate+" ;; say: last", wire.StateRunning)
	viewer := b.attach(viewKey)
	viewer.load()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+former+"/runs/run/transcript?follow=true", nil)
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+viewKey)
	response, err := http.DefaultTransport.RoundTrip(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	require.Equal(t, http.StatusOK, response.StatusCode)

	b.signal(syscall.SIGTERM)
	b.log.Await(t, "acp: closed")
	assert.True(t, refuses(t, former))
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	viewer.until(`"last"`)
	b.until("run", wire.StateFinished)
	var followed strings.Builder
	_, err = io.Copy(&followed, response.Body)
	require.NoError(t, err, "it ends with the run")
	assert.Equal(t, http.StatusNoContent, b.call(http.MethodPost, wire.RunsPath+"/run/recorded?attempt=1", nil, nil))
	assert.Equal(t, websocket.StatusGoingAway, viewer.closed())
	assert.Equal(t, 0, b.code(), b.log.String())

	reader, err := transcript.NewReader(bufio.NewReader(strings.NewReader(followed.String())))
	require.NoError(t, err)
	assert.Equal(t, "run", reader.Header().Run.UID)
	var said []string
	for {
		entry, err := reader.Next()
		if err != nil {
			require.ErrorIs(t, err, io.EOF)
			break
		}
		said = append(said, string(entry.Frame))
	}
	assert.Contains(t, strings.Join(said, "\n"), `"first"`)
	assert.Contains(t, strings.Join(said, "\n"), `"last"`)
	assert.NotContains(t, b.log.String(), viewKey)
}

// R4, row 20: with the agent its clients go, and are told to come again; what it last said has reached them.
func TestClientsGoWithTheirAgent(t *testing.T) {
	p := newPlace(t)
	p.env = []string{envView + "=" + viewKey}
	b := p.ready()
	gate := filepath.Join(t.TempDir(), "gate")
	b.accepted("run", "wait: "+gate+" ;; say: goodbye ;; die:", wire.StateRunning)
	viewer := b.attach(viewKey)
	viewer.load()
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	viewer.until(`"goodbye"`)
	assert.Equal(t, websocket.StatusServiceRestart, viewer.closed())
	b.log.AwaitNth(t, `acp: listening`, 2)
	b.attach(viewKey)
}

// A client that hangs does not keep the harness from ending.
func TestAClientThatHangsKeepsNobody(t *testing.T) {
	p := newPlace(t)
	p.env = []string{envView + "=" + viewKey}
	b := p.ready()
	b.attach(viewKey) // and nobody reads on: no pong, no goodbye
	b.signal(syscall.SIGTERM)
	assert.Equal(t, 0, b.code(), b.log.String())
}
