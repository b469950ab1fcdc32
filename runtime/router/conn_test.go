package router

import (
	"bufio"
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = time.Minute // for what comes when it comes

var errGone = errors.New("the agent exited with status 3")

// peer is an agent played by the test.
type peer struct {
	t    *testing.T
	conn *Conn
	in   *bufio.Reader
	out  *io.PipeWriter
}

func dial(t *testing.T, maxLine int) *peer {
	t.Helper()
	toAgentR, toAgentW := io.Pipe()
	fromAgentR, fromAgentW := io.Pipe()
	conn := Open(Config{In: fromAgentR, Out: toAgentW, Cause: func() error { return errGone }, Now: time.Now, MaxLine: maxLine})
	p := &peer{t: t, conn: conn, in: bufio.NewReader(toAgentR), out: fromAgentW}
	t.Cleanup(func() {
		_ = fromAgentW.Close()
		_ = toAgentR.Close()
		<-conn.Done()
	})
	return p
}

func (p *peer) write(lines ...string) {
	p.t.Helper()
	for _, l := range lines {
		_, err := io.WriteString(p.out, l+"\n")
		require.NoError(p.t, err)
	}
}

// read returns the next line that the agent was sent.
func (p *peer) read() string {
	p.t.Helper()
	line, err := p.in.ReadString('\n')
	require.NoError(p.t, err)
	return strings.TrimSuffix(line, "\n")
}

// session opens the session "s1" with these lines sent before its answer.
func (p *peer) session(before ...string) *Session {
	p.t.Helper()
	opened := make(chan *Session, 1)
	go func() {
		s, err := p.conn.NewSession(context.Background(), "/w")
		assert.NoError(p.t, err)
		opened <- s
	}()
	line := p.read()
	assert.Contains(p.t, line, `"method":"session/new"`)
	assert.Contains(p.t, line, `"params":{"cwd":"/w","mcpServers":[]}`)
	p.write(before...)
	p.write(answer(line, `{"sessionId":"s1","modes":{"currentModeId":"approve"}}`))
	return <-opened
}

func answer(request, result string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, idOf(request), result)
}

func idOf(line string) string {
	var f struct {
		ID stdjson.RawMessage `json:"id"`
	}
	_ = stdjson.Unmarshal([]byte(line), &f)
	return string(f.ID)
}

func update(session, text string) string {
	return `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"` + session +
		`","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + text + `"}}}}`
}

// notes is a sink that writes down what it gets.
type notes struct {
	mu       sync.Mutex
	got      []string
	requests []*Request
	news     chan struct{}
}

func newNotes() *notes { return &notes{news: make(chan struct{}, 1000)} }

func (n *notes) add(s string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.got = append(n.got, s)
	n.news <- struct{}{}
}

func (n *notes) all() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.got...)
}

func (n *notes) Notified(x Notification) {
	var p struct {
		Update struct {
			Content struct {
				Text string `json:"text"`
			} `json:"content"`
		} `json:"update"`
	}
	_ = stdjson.Unmarshal(x.Params, &p)
	n.add(x.Method + " " + p.Update.Content.Text)
}

func (n *notes) Asked(r *Request) {
	n.mu.Lock()
	n.requests = append(n.requests, r)
	n.mu.Unlock()
	n.add(r.Method)
}

func (n *notes) Lost(err error) { n.add("lost: " + err.Error()) }

func TestInitializeOffersVersionOneAndNothingElse(t *testing.T) {
	p := dial(t, 0)
	type result struct {
		agent Agent
		err   error
	}
	done := make(chan result, 1)
	go func() {
		a, err := p.conn.Initialize(context.Background(), "v9")
		done <- result{a, err}
	}()
	line := p.read()
	var sent struct {
		Params struct {
			ProtocolVersion    int            `json:"protocolVersion"`
			ClientCapabilities map[string]any `json:"clientCapabilities"`
			ClientInfo         map[string]any `json:"clientInfo"`
		} `json:"params"`
	}
	require.NoError(t, stdjson.Unmarshal([]byte(line), &sent))
	assert.Equal(t, 1, sent.Params.ProtocolVersion)
	assert.Equal(t, map[string]any{"name": "hearth", "version": "v9"}, sent.Params.ClientInfo)
	assert.Equal(t, map[string]any{"goose": map[string]any{"customNotifications": true}}, sent.Params.ClientCapabilities["_meta"])
	assert.Equal(t, 1, strings.Count(line, "true"), "no other capability is offered")
	assert.NotContains(t, line, "elicitation")
	p.write(answer(line, `{"protocolVersion":1,"agentInfo":{"name":"goose","version":"1.52.0"},"agentCapabilities":{"sessionCapabilities":{"close":{}}},"news":[1]}`))
	r := <-done
	require.NoError(t, r.err)
	assert.Equal(t, "goose 1.52.0", r.agent.Name+" "+r.agent.Version)
	assert.True(t, r.agent.Closes)
}

func TestInitializeRefusesAnotherProtocolVersion(t *testing.T) {
	for _, c := range []struct{ result, want string }{
		{`{"protocolVersion":2}`, "answered protocolVersion 2; expected 1"},
		{`{"protocolVersion":"1"}`, `answered protocolVersion "1"; expected 1`},
		{`{}`, "answered protocolVersion (none); expected 1"},
		{`[]`, "the answer is not the protocol's"},
	} {
		t.Run(c.result, func(t *testing.T) {
			p := dial(t, 0)
			done := make(chan error, 1)
			go func() {
				_, err := p.conn.Initialize(context.Background(), "v")
				done <- err
			}()
			p.write(answer(p.read(), c.result))
			assert.ErrorContains(t, <-done, c.want)
		})
	}
}

// SPEC.md, Harness: ids of the agent come back byte for byte.
func TestRequestsOfTheAgentAreAnsweredWithTheirOwnID(t *testing.T) {
	for _, id := range []string{`1`, `-7`, `1.50`, `1e3`, `123456789012345678901234567890`, `"c4456245-1c09"`, `"é<&>\u00e9\/"`, `null`} {
		t.Run(id, func(t *testing.T) {
			p := dial(t, 0)
			p.write(`{"jsonrpc":"2.0","id":` + id + `,"method":"fs/read_text_file","params":{}}`)
			assert.Equal(t, `{"jsonrpc":"2.0","id":`+id+`,"error":{"code":-32601,"message":"method not found: fs/read_text_file"}}`, p.read())

			sink := newNotes()
			p.session().Attach(sink)
			p.write(`{"jsonrpc":"2.0","method":"session/request_permission","params":{"sessionId":"s1"},"id":` + id + `}`)
			<-sink.news
			require.NoError(t, sink.requests[0].Answer(map[string]int{"a": 1}))
			require.NoError(t, sink.requests[0].Cancel(), "a second answer does nothing")
			require.NoError(t, p.conn.Notify("end", 1))
			assert.Equal(t, `{"jsonrpc":"2.0","id":`+id+`,"result":{"a":1}}`, p.read())
			assert.Contains(t, p.read(), `"method":"end"`)
		})
	}
}

func TestUpdatesBeforeTheAnswerToNewAreKept(t *testing.T) {
	p := dial(t, 0)
	s := p.session(update("s1", "one"), update("other", "x"), update("s1", "two"))
	assert.Equal(t, "approve", s.Mode)
	p.write(update("s1", "three"))
	sync1, err := p.conn.Send("sync", 1)
	require.NoError(t, err)
	p.write(answer(p.read(), `{}`))
	<-sync1.Done()
	sink := newNotes()
	s.Attach(sink)
	p.write(update("s1", "four"))
	for range 4 {
		<-sink.news
	}
	assert.Equal(t, []string{"session/update one", "session/update two", "session/update three", "session/update four"}, sink.all())
	s.Release()
	p.write(update("s1", "late"))
	p.write(`{"jsonrpc":"2.0","id":1,"method":"x"}`)
	p.read()
	assert.Len(t, sink.all(), 4)
}

func TestWhatIsKeptBeforeAttachIsBounded(t *testing.T) {
	p := dial(t, 0)
	s := p.session()
	for range 6 {
		p.write(update("s1", strings.Repeat("x", 1<<20)))
	}
	p.write(`{"jsonrpc":"2.0","id":1,"method":"x"}`)
	p.read()
	sink := newNotes()
	s.Attach(sink)
	assert.Len(t, sink.all(), 3)
}

// What the agent sent before an answer is delivered before it.
func TestNotificationsBeforeAnAnswerComeBeforeIt(t *testing.T) {
	p := dial(t, 0)
	s := p.session()
	sink := newNotes()
	s.Attach(sink)
	for round := range 50 {
		call, err := s.Prompt("standing", "hello")
		require.NoError(t, err)
		line := p.read()
		assert.Contains(t, line, `"prompt":[{"text":"standing","type":"text"},{"text":"hello","type":"text"}]`)
		go p.write(update("s1", "a"), update("s1", "b"), answer(line, `{"stopReason":"end_turn"}`))
		<-call.Done()
		assert.Len(t, sink.all(), 2*(round+1))
		result, err := call.Result()
		require.NoError(t, err)
		assert.JSONEq(t, `{"stopReason":"end_turn"}`, string(result))
	}
}

func TestOtherNotificationsOfASessionAreDeliveredUnknownOrNot(t *testing.T) {
	p := dial(t, 0)
	sink := newNotes()
	p.session().Attach(sink)
	p.write(`{"jsonrpc":"2.0","method":"_goose/unstable/session/update","params":{"sessionId":"s1"}}`, `{"jsonrpc":"2.0","method":"_news","params":[1]}`, `{"jsonrpc":"2.0","method":"_more"}`, update("s1", "x"))
	<-sink.news
	<-sink.news
	assert.Equal(t, []string{"_goose/unstable/session/update ", "session/update x"}, sink.all())
}

func TestAPermissionRequestNobodyCanSeeIsAnsweredCancelled(t *testing.T) {
	p := dial(t, 0)
	p.session()
	for _, session := range []string{"s1", "unknown"} {
		p.write(`{"jsonrpc":"2.0","id":"a","method":"session/request_permission","params":{"sessionId":"` + session + `"}}`)
		assert.Equal(t, `{"jsonrpc":"2.0","id":"a","result":{"outcome":{"outcome":"cancelled"}}}`, p.read())
	}
}

func TestBrokenFramesAreAnsweredAndCountedAndTheStreamGoesOn(t *testing.T) {
	for _, c := range []struct {
		line string
		code int
	}{
		{"Starting agent…", -32700},
		{`{"jsonrpc":"2.0","id":1,"result":`, -32700},
		{"{\"a\":\"\x00\"}", -32700},
		{`{} {}`, -32700},
		{`[{"jsonrpc":"2.0","id":1,"method":"a"}]`, -32600},
		{`{"jsonrpc":"2.0","id":1}`, -32600},
		{`{"jsonrpc":"2.0"}`, -32600},
		{`{"jsonrpc":"2.0","id":{},"method":"a"}`, -32600},
		{`{"jsonrpc":"2.0","id":1,"method":7}`, -32600},
		{`7`, -32600},
	} {
		t.Run(c.line, func(t *testing.T) {
			p := dial(t, 0)
			p.write(c.line)
			var got struct {
				ID    any `json:"id"`
				Error struct {
					Code int `json:"code"`
				} `json:"error"`
			}
			line := p.read()
			require.NoError(t, stdjson.Unmarshal([]byte(line), &got))
			assert.Contains(t, line, `"id":null`)
			assert.Equal(t, c.code, got.Error.Code)
			assert.EqualValues(t, 1, p.conn.Broken())
			p.write("", "  \r", `{"jsonrpc":"2.0","id":5,"method":"x"}`)
			assert.Contains(t, p.read(), `"id":5`)
			assert.EqualValues(t, 1, p.conn.Broken())
		})
	}
}

// An id that is not ours is not one of ours, however it is written.
func TestAnswersToNothingAreCountedAndIgnored(t *testing.T) {
	p := dial(t, 0)
	call, err := p.conn.Send("m", 1)
	require.NoError(t, err)
	line := p.read()
	p.write(`{"jsonrpc":"2.0","id":"`+idOf(line)+`","result":1}`, `{"jsonrpc":"2.0","id":99,"result":1}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700}}`, answer(line, `"right"`))
	<-call.Done()
	result, err := call.Result()
	require.NoError(t, err)
	assert.Equal(t, `"right"`, string(result))
	assert.EqualValues(t, 3, p.conn.Broken())
}

func TestAnErrorOfTheAgentIsAnRPCError(t *testing.T) {
	p := dial(t, 0)
	call, err := p.conn.Send("m", 1)
	require.NoError(t, err)
	p.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"Internal error","data":"no provider"}}`, idOf(p.read())))
	<-call.Done()
	_, err = call.Result()
	var rpc *RPCError
	require.ErrorAs(t, err, &rpc)
	assert.Equal(t, -32603, rpc.Code)
	assert.Equal(t, `Internal error: "no provider" (code -32603)`, err.Error())
}

// Fault row 34: a message over the limit costs the one whose it was, not the connection.
func TestALineThatIsTooLongFailsOnlyWhatItBelongsTo(t *testing.T) {
	const limit = 8 << 10
	big := strings.Repeat("x", limit)
	p := dial(t, limit)
	s := p.session()
	sink := newNotes()
	s.Attach(sink)

	call, err := s.Prompt("hello")
	require.NoError(t, err)
	line := p.read()
	p.write(update("other", big), update("s1", big))
	<-sink.news
	assert.Equal(t, []string{"lost: " + ErrLineTooLong.Error()}, sink.all())
	p.write(answer(line, `{"_meta":"`+big+`"}`))
	<-call.Done()
	_, err = call.Result()
	require.ErrorIs(t, err, ErrLineTooLong)

	p.write(`{"jsonrpc":"2.0","id":"q","method":"session/request_permission","params":{"sessionId":"other","a":"` + big + `"}}`)
	assert.Contains(t, p.read(), `"id":"q","error":{"code":-32600`)
	p.write(`{"result":"` + big + `","id":77}`) // nobody can tell whose
	<-sink.news
	assert.Len(t, sink.all(), 2)
	p.write(update("s1", "still here"))
	<-sink.news
	assert.Equal(t, "session/update still here", sink.all()[2])
	assert.NoError(t, p.conn.Err())
}

func TestALineOfManyMegabytesIsFine(t *testing.T) {
	p := dial(t, 0)
	sink := newNotes()
	p.session().Attach(sink)
	p.write(update("s1", strings.Repeat("x", 11<<20))) // more than other clients take
	<-sink.news
	assert.Len(t, sink.all()[0], len("session/update ")+11<<20)
}

// Fault row 20: whatever is pending fails at once, with the reason.
func TestTheEndOfTheAgentFailsEverythingPending(t *testing.T) {
	p := dial(t, 0)
	one, err := p.conn.Send("a", 1)
	require.NoError(t, err)
	two := make(chan error, 1)
	go func() {
		_, err := p.conn.NewSession(context.Background(), "/w")
		two <- err
	}()
	p.read()
	p.read()
	_, _ = io.WriteString(p.out, `{"jsonrpc":"2.0","half a fra`)
	require.NoError(t, p.out.Close())
	<-one.Done()
	_, err = one.Result()
	require.ErrorIs(t, err, errGone)
	require.ErrorIs(t, <-two, errGone)
	<-p.conn.Done()
	require.ErrorIs(t, p.conn.Err(), errGone)
	_, err = p.conn.Send("b", 1)
	require.ErrorIs(t, err, errGone)
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, p.conn.Notify("c", 1), ErrClosed)
}

func TestCloseEndsTheConnection(t *testing.T) {
	p := dial(t, 0)
	call, err := p.conn.Send("a", 1)
	require.NoError(t, err)
	p.conn.Close()
	<-call.Done()
	<-p.conn.Done()
}

func TestACallEndsWithItsContext(t *testing.T) {
	p := dial(t, 0)
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := p.conn.Call(ctx, "a", 1)
		done <- err
	}()
	line := p.read()
	cancel(errors.New("enough"))
	require.EqualError(t, <-done, "enough")
	p.write(answer(line, "1"), `{"jsonrpc":"2.0","id":5,"method":"x"}`)
	assert.Contains(t, p.read(), `"id":5`, "the late answer is ignored")
}

// An agent that does not read its input must not stop the reader, nor fill the memory.
func TestTheReaderNeverWaitsForTheAgentToRead(t *testing.T) {
	p := dial(t, 0)
	sink := newNotes()
	s := p.session()
	s.Attach(sink)
	ask := `{"jsonrpc":"2.0","id":"` + strings.Repeat("i", 60<<10) + `","method":"nothing"}`
	p.conn.out.limit = 2 << 20
	for range 50 { // answers of 3 MiB that nobody reads
		p.write(ask)
	}
	p.write("garbage", update("s1", "arrived"))
	<-sink.news
	assert.Equal(t, []string{"session/update arrived"}, sink.all())
	_, err := p.conn.Send("more", strings.Repeat("x", 60<<10))
	require.ErrorIs(t, err, ErrBacklog)
}

func TestEverythingTheAgentWritesIsASignOfLife(t *testing.T) {
	p := dial(t, 0)
	before := p.conn.LastHeard()
	_, err := io.WriteString(p.out, `{"half`)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return p.conn.LastHeard().After(before) }, patience, time.Millisecond)
}
