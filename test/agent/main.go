// Command agent is an Agent Client Protocol agent that does what the goal's text tells it, for tests; see README.md.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// Environment of the agent itself.
const (
	envEffects  = "AGENT_EFFECTS_FILE" // a line of JSON per started prompt is appended here
	envEnds     = "AGENT_ENDS_FILE"    // and here one per prompt that ended
	envName     = "AGENT_NAME"         // agentInfo.name; "scripted" when empty
	envProtocol = "AGENT_PROTOCOL"     // protocolVersion it answers with; 1 when empty
	envStart    = "AGENT_START"        // "mute": no answer to initialize; "exit": exits 7 unless the file AGENT_START_FILE exists
	envFile     = "AGENT_START_FILE"
	envEarly    = "AGENT_EARLY"    // updates sent before the answer to session/new
	envSessions = "AGENT_SESSIONS" // "fail": session/new is answered with an error
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "sleep" {
		time.Sleep(time.Hour)
		return
	}
	if os.Getenv(envStart) == "exit" {
		if _, err := os.Stat(os.Getenv(envFile)); err != nil { //nolint:gosec // the test names the file
			fmt.Fprintln(os.Stderr, "the start file is not there")
			os.Exit(7)
		}
	}
	if len(os.Args) > 2 && os.Args[1] == "serve" {
		fmt.Fprintln(os.Stderr, "agent:", listen(os.Args[2]))
		os.Exit(1)
	}
	a := &agent{out: bufio.NewWriterSize(os.Stdout, 1<<16), sessions: map[string]*session{}, answers: map[string]chan json.RawMessage{}}
	if err := a.serve(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

// frame is one JSON-RPC message in either direction.
type frame struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

type agent struct {
	mu       sync.Mutex
	out      *bufio.Writer
	sessions map[string]*session
	asked    int
	answers  map[string]chan json.RawMessage // by the id of our request; gets the whole answer
}

func (a *agent) serve(in io.Reader) error {
	r := bufio.NewReaderSize(in, 1<<16)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return nil // the client left
		}
		var f frame
		if err := json.Unmarshal(line, &f); err != nil {
			return fmt.Errorf("read: %w", err)
		}
		if f.Method == "" {
			a.settle(f, line)
			continue
		}
		a.handle(f)
	}
}

func (a *agent) settle(f frame, line []byte) {
	a.mu.Lock()
	answer := a.answers[string(f.ID)]
	delete(a.answers, string(f.ID))
	a.mu.Unlock()
	if answer != nil {
		answer <- line
	}
}

// raw writes one line as it is.
func (a *agent) raw(line []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, _ = a.out.Write(append(line, '\n'))
	_ = a.out.Flush()
}

func (a *agent) send(f frame) {
	f.JSONRPC = "2.0"
	line, err := json.Marshal(f)
	if err != nil {
		panic(err)
	}
	a.raw(line)
}

func (a *agent) reply(id json.RawMessage, result any) {
	a.send(frame{ID: id, Result: encode(result)})
}

func (a *agent) fail(id json.RawMessage, code int, message string) {
	a.send(frame{ID: id, Error: encode(map[string]any{"code": code, "message": message})})
}

// ask sends a request and returns the channel that gets the whole answer.
func (a *agent) ask(stringID bool, method string, params any) <-chan json.RawMessage {
	a.mu.Lock()
	a.asked++
	id := fmt.Sprintf("%d", a.asked)
	if stringID {
		id = fmt.Sprintf("%q", "ask-é-"+id)
	}
	answer := make(chan json.RawMessage, 1)
	a.answers[id] = answer
	a.mu.Unlock()
	a.send(frame{ID: json.RawMessage(id), Method: method, Params: encode(params)})
	return answer
}

func encode(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// ignoreTermination makes the agent survive all but SIGKILL.
func ignoreTermination() { signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP) }
