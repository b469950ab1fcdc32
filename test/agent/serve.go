package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/coder/websocket"
)

// maxMessage is the longest message that the server takes, as goose's does.
const maxMessage = 64 << 20

// listen serves the agent over WebSocket at ADDRESS/acp until it is ended. As goose does, it gives each connection an agent of its
// own, wants the key of its environment, and lets a turn go on whose connection is gone.
func listen(address string) error {
	key := os.Getenv("GOOSE_SERVER__SECRET_KEY")
	mux := http.NewServeMux()
	mux.HandleFunc("/acp", func(w http.ResponseWriter, r *http.Request) {
		if key != "" && r.Header.Get("X-Secret-Key") != key {
			http.Error(w, "unauthorized", http.StatusUnauthorized)
			return
		}
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		conn.SetReadLimit(maxMessage)
		in, lines := io.Pipe()
		go copyMessages(conn, lines)
		a := &agent{out: bufio.NewWriterSize(&messages{conn: conn}, 1<<16), sessions: map[string]*session{}, answers: map[string]chan json.RawMessage{}}
		_ = a.serve(in) // what was no message ends the connection
		_ = conn.CloseNow()
	})
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: time.Minute}
	return server.ListenAndServe()
}

// copyMessages makes lines of a connection's messages.
func copyMessages(conn *websocket.Conn, lines *io.PipeWriter) {
	for {
		_, message, err := conn.Read(context.Background())
		if err != nil {
			_ = lines.Close()
			return
		}
		_, _ = lines.Write(append(message, '\n'))
	}
}

// messages makes messages of lines.
type messages struct {
	conn *websocket.Conn
	line []byte
}

func (m *messages) Write(p []byte) (int, error) {
	m.line = append(m.line, p...)
	if n := len(m.line); n > 0 && m.line[n-1] == '\n' {
		line := m.line[:n-1]
		m.line = nil
		return len(p), m.conn.Write(context.Background(), websocket.MessageText, line)
	}
	return len(p), nil
}
