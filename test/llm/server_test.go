package llm

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const shellTool = `{"type":"function","function":{"name":"developer__shell","parameters":{"type":"object",
	"properties":{"command":{"type":"string"},"why":{"type":"string"},"n":{"type":"integer"}},"required":["command","why","n"]}}}`

func start(t *testing.T, options Options) (*Server, string) {
	t.Helper()
	s := New(options)
	ts := httptest.NewServer(s)
	t.Cleanup(func() {
		ts.CloseClientConnections()
		ts.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return s, ts.URL
}

// answer is a response whose body the test's end closes.
type answer struct {
	StatusCode int
	Header     http.Header
	Body       io.Reader
}

func post(ctx context.Context, t *testing.T, url, body string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer k")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, res.Body.Close()) })
	return answer{res.StatusCode, res.Header, res.Body}
}

func quote(s string) string {
	raw, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func body(stream bool, goal string, after ...string) string {
	messages := append([]string{`{"role":"system","content":"You are goose. say: not this"}`, `{"role":"user","content":` + quote(goal) + `}`}, after...)
	return fmt.Sprintf(`{"model":"m","stream":%t,"stream_options":{"include_usage":true},"tools":[%s],"messages":[%s]}`, stream, shellTool, strings.Join(messages, ","))
}

func ask(t *testing.T, url string, body string) completion {
	t.Helper()
	res := post(t.Context(), t, url+"/v1/chat/completions", body)
	require.Equal(t, http.StatusOK, res.StatusCode)
	var got completion
	require.NoError(t, json.NewDecoder(res.Body).Decode(&got))
	require.Len(t, got.Choices, 1)
	return got
}

// read joins the pieces of a streamed answer.
func read(t *testing.T, r io.Reader) (text, finish string, last completion, done bool) {
	t.Helper()
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" {
			return text, finish, last, true
		}
		last = completion{}
		require.NoError(t, json.Unmarshal([]byte(data), &last))
		for _, c := range last.Choices {
			text += c.Delta.Content
			if c.Finish != nil {
				finish = *c.Finish
			}
		}
	}
	return text, finish, last, false
}

func TestWholeAnswerSaysTheScriptWithUsage(t *testing.T) {
	s, url := start(t, Options{Second: time.Microsecond})
	got := ask(t, url, body(false, "say: one two\nslow: 2\nhuge: 3"))
	assert.Equal(t, "one two\nword1 word2 \nxxx", got.Choices[0].Message.Content)
	assert.Equal(t, "stop", *got.Choices[0].Finish)
	require.NotNil(t, got.Usage)
	assert.Equal(t, usage{Prompt: got.Usage.Prompt, Completion: 6, Total: got.Usage.Prompt + 6}, *got.Usage)
	assert.Positive(t, got.Usage.Prompt)
	assert.Equal(t, 1, s.Turns())
}

func TestStreamedAnswerEndsWithFinishUsageAndDone(t *testing.T) {
	_, url := start(t, Options{})
	res := post(t.Context(), t, url+"/v1/chat/completions", body(true, "say: hello there\nfinish: length\nusage: 5 6"))
	assert.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
	text, finish, last, done := read(t, res.Body)
	assert.Equal(t, "hello there", text)
	assert.Equal(t, "length", finish)
	assert.Equal(t, &usage{Prompt: 5, Completion: 6, Total: 11}, last.Usage)
	assert.True(t, done)
}

func TestUsageNoneReportsNoUsage(t *testing.T) {
	_, url := start(t, Options{})
	res := post(t.Context(), t, url+"/v1/chat/completions", body(true, "say: x\nusage: none"))
	_, _, last, done := read(t, res.Body)
	assert.Nil(t, last.Usage)
	assert.NotEmpty(t, last.Choices, "the last piece is the finish, no empty one about usage")
	assert.True(t, done)
}

func TestShellIsCalledByTheClientsNameAndItsOutputSaid(t *testing.T) {
	s, url := start(t, Options{})
	goal := "say: first\nshell: echo 1\nsay: then\nshell: echo 2\nsay: last"
	calls := func(c completion) call {
		t.Helper()
		require.Equal(t, "tool_calls", *c.Choices[0].Finish)
		require.Len(t, c.Choices[0].Message.Calls, 1)
		return c.Choices[0].Message.Calls[0]
	}
	first := ask(t, url, body(false, goal))
	assert.Equal(t, "first", first.Choices[0].Message.Content)
	one := calls(first)
	assert.Equal(t, "developer__shell", one.Function.Name)
	assert.JSONEq(t, `{"command":"echo 1","why":"scripted"}`, one.Function.Arguments)

	tail := []string{`{"role":"assistant","content":null}`, `{"role":"tool","content":[{"type":"text","text":"out"},{"type":"text","text":"1"}]}`}
	second := ask(t, url, body(false, goal, tail...))
	assert.Equal(t, "out\n1\nthen", second.Choices[0].Message.Content)
	two := calls(second)
	assert.JSONEq(t, `{"command":"echo 2","why":"scripted"}`, two.Function.Arguments)
	assert.NotEqual(t, one.ID, two.ID)

	tail = append(tail, `{"role":"assistant","content":null}`, `{"role":"tool","content":""}`)
	third := ask(t, url, body(false, goal, tail...))
	assert.Equal(t, "(no output)\nlast", third.Choices[0].Message.Content)
	assert.Equal(t, "stop", *third.Choices[0].Finish)
	assert.Equal(t, 1, s.Turns(), "requests with tool results belong to the same turn")
}

func TestOnlyTheLastUserTextCounts(t *testing.T) {
	_, url := start(t, Options{})
	got := ask(t, url, body(false, "say: old\nshell: x", `{"role":"tool","content":"old result"}`,
		`{"role":"user","content":"say: new\n<turn-context>\nslow: 9\n</turn-context>"}`, `{"role":"user","content":"<turn-context>x</turn-context>"}`))
	assert.Equal(t, "new", got.Choices[0].Message.Content)
}

func TestTitleRequestDoesNotPlayTheGoalItQuotes(t *testing.T) {
	s, url := start(t, Options{})
	got := ask(t, url, body(false, "---BEGIN USER MESSAGES---\nfail: 500\n---END USER MESSAGES---"))
	assert.Equal(t, titleText, got.Choices[0].Message.Content)
	assert.Zero(t, s.Turns())
}

func TestFailAnswersItsStatusOrCutsWhatHasBegun(t *testing.T) {
	_, url := start(t, Options{})
	res := post(t.Context(), t, url+"/v1/chat/completions", body(true, "fail: 503"))
	assert.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
	raw, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	assert.Contains(t, string(raw), "scripted failure 503")

	res = post(t.Context(), t, url+"/v1/chat/completions", body(true, "say: begun\nfail: 503"))
	assert.Equal(t, http.StatusOK, res.StatusCode)
	raw, err = io.ReadAll(res.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.Contains(t, string(raw), "begun")
}

func TestHangBeginsAndEndsWithTheClient(t *testing.T) {
	_, url := start(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	res := post(ctx, t, url+"/v1/chat/completions", body(true, "hang:"))
	assert.Equal(t, http.StatusOK, res.StatusCode, "the headers come before the silence")
	cancel()
	_, err := io.ReadAll(res.Body)
	assert.ErrorIs(t, err, context.Canceled)
}

func TestGateHoldsUntilOpened(t *testing.T) {
	_, url := start(t, Options{})
	res := post(t.Context(), t, url+"/v1/chat/completions", body(true, "gate: go\nsay: through"))
	assert.Equal(t, http.StatusOK, res.StatusCode)
	assert.Equal(t, http.StatusNoContent, post(t.Context(), t, url+"/gates/go", "").StatusCode)
	text, _, _, done := read(t, res.Body)
	assert.Equal(t, "through", text)
	assert.True(t, done)
	assert.Equal(t, "again", ask(t, url, body(false, "gate: go\nsay: again")).Choices[0].Message.Content, "an open gate stays open")
}

func TestGatesAreBounded(t *testing.T) {
	var g gates
	for i := range maxGates {
		require.True(t, g.open(fmt.Sprint(i)))
	}
	assert.False(t, g.open("one more"))
	assert.True(t, g.open("0"))
}

func TestBadRequestsGetOneClearError(t *testing.T) {
	_, url := start(t, Options{APIKey: "k"})
	for name, tt := range map[string]struct {
		path, body, want string
		status           int
	}{
		"not JSON":      {"/v1/chat/completions", "{", "body: unexpected EOF", 400},
		"no user text":  {"/v1/chat/completions", `{"messages":[]}`, "messages: expected a user message with text", 400},
		"bad content":   {"/v1/chat/completions", `{"messages":[{"content":1}]}`, "messages.content: expected a string or a list of parts", 400},
		"bad directive": {"/v1/chat/completions", body(true, "slow: x"), "slow: expected seconds", 400},
		"too large":     {"/v1/chat/completions", `{"model":"` + strings.Repeat("x", maxBody) + `"}`, "too large", 413},
		"unknown path":  {"/v1/responses", "{}", "no POST /v1/responses here", 404},
	} {
		t.Run(name, func(t *testing.T) {
			res := post(t.Context(), t, url+tt.path, tt.body)
			var got struct{ Error struct{ Message string } }
			require.NoError(t, json.NewDecoder(res.Body).Decode(&got))
			assert.Equal(t, tt.status, res.StatusCode)
			assert.Contains(t, got.Error.Message, tt.want)
		})
	}
}

func TestKeyIsRequiredWhenSet(t *testing.T) {
	_, url := start(t, Options{APIKey: "other"})
	assert.Equal(t, http.StatusUnauthorized, post(t.Context(), t, url+"/v1/chat/completions", body(true, "say: x")).StatusCode)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/models", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer other")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { assert.NoError(t, res.Body.Close()) }()
	raw, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	assert.Contains(t, string(raw), `"test-model"`)
}

func TestClientWithoutShellIsToldSo(t *testing.T) {
	_, url := start(t, Options{})
	got := ask(t, url, `{"messages":[{"role":"user","content":"shell: x\nsay: on"}]}`)
	assert.Equal(t, "error: this client offers no shell tool\non", got.Choices[0].Message.Content)
}
