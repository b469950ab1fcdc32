package turn

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/router"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stage is an agent played by a test, with a turn running against it. Time is the bubble's.
type stage struct {
	t       *testing.T
	conn    *router.Conn
	in      *bufio.Reader
	out     *io.PipeWriter
	seat    Seat
	runner  Runner
	starts  []string
	startFn func() error
	settled bool
	ends    int
	census  int
	prompt  string // id of the prompt
	done    chan result
}

type result struct {
	envelope wire.Envelope
	ended    bool
}

func newStage(t *testing.T, maxLine int) *stage {
	t.Helper()
	toAgentR, toAgentW := io.Pipe()
	fromAgentR, fromAgentW := io.Pipe()
	gone := errors.New("agent process exited with status 3; stderr ends: out of memory")
	s := &stage{t: t, in: bufio.NewReader(toAgentR), out: fromAgentW, settled: true, done: make(chan result, 1), startFn: func() error { return nil }}
	s.conn = router.Open(router.Config{In: fromAgentR, Out: toAgentW, Cause: func() error { return gone }, Now: time.Now, MaxLine: maxLine})
	t.Cleanup(func() {
		_ = fromAgentW.Close()
		_ = toAgentR.Close()
		<-s.conn.Done()
	})
	opened := make(chan *router.Session, 1)
	go func() {
		session, err := s.conn.NewSession(context.Background(), "/w")
		assert.NoError(t, err)
		opened <- session
	}()
	s.answer(s.read().ID, `{"sessionId":"s1","modes":{"currentModeId":"approve"}}`)
	s.seat = Seat{
		Session: <-opened, Agent: "goose", LastHeard: s.conn.LastHeard,
		Census: func() { s.census++ }, Settled: func(context.Context) bool { return s.settled },
		End: func(context.Context) error {
			s.ends++
			return s.out.Close()
		},
	}
	s.runner = Runner{Policy: Deny, Silence: DefaultSilence, CancelGrace: DefaultCancelGrace, Now: time.Now}
	return s
}

type line struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
}

func (s *stage) read() line {
	s.t.Helper()
	text, err := s.in.ReadString('\n')
	require.NoError(s.t, err)
	var l line
	require.NoError(s.t, json.Unmarshal([]byte(text), &l))
	return l
}

func (s *stage) write(text string) {
	s.t.Helper()
	_, err := io.WriteString(s.out, text+"\n")
	require.NoError(s.t, err)
}

func (s *stage) answer(id json.RawMessage, result string) {
	s.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result))
}

func (s *stage) update(fields string) {
	s.write(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{` + fields + `}}}`)
}

func (s *stage) say(text string) {
	s.update(`"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + text + `"}`)
}

// begin starts the turn and takes its prompt.
func (s *stage) begin(ctx context.Context, g Goal) {
	s.t.Helper()
	s.run(ctx, g)
	l := s.read()
	require.Equal(s.t, "session/prompt", l.Method)
	s.prompt = string(l.ID)
}

func (s *stage) run(ctx context.Context, g Goal) {
	go func() {
		e, ended := s.runner.Run(ctx, s.seat, g, func(session string) error {
			s.starts = append(s.starts, session)
			return s.startFn()
		})
		s.done <- result{e, ended}
	}()
}

func (s *stage) end(stop string) { s.answer(json.RawMessage(s.prompt), `{"stopReason":"`+stop+`"}`) }

func (s *stage) requireCancel() {
	s.t.Helper()
	l := s.read()
	require.Equal(s.t, "session/cancel", l.Method)
	require.JSONEq(s.t, `{"sessionId":"s1"}`, string(l.Params))
}
