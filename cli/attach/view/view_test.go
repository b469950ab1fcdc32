package view

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/cli/acp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// R51, R55: what is said in a session, as people see it. Each message may come in pieces; what is shown is the same.
func TestASessionAsPeopleSeeIt(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.jsonl")
	require.NoError(t, err)
	require.NotEmpty(t, inputs)
	for _, input := range inputs {
		content, err := os.ReadFile(input)
		require.NoError(t, err)
		for name, cfg := range map[string]Config{"plain": {}, "colour": {Colour: true, Width: 60}, "times": {Times: true, Width: 50}} {
			v, out := New(cfg), []byte(nil)
			v.At(time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC))
			for line := range strings.Lines(string(content)) {
				out = append(out, show(v, []byte(strings.TrimSpace(line)))...)
			}
			out = append(out, v.End()...)
			golden := strings.TrimSuffix(input, ".jsonl") + "." + name + ".golden"
			if *update {
				require.NoError(t, os.WriteFile(golden, out, 0o600))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			assert.Equal(t, string(want), string(out), golden)
		}
	}
}

// show gives a line to the view: an entry of a transcript, or a message of an endpoint.
func show(v *View, line []byte) []byte {
	f := read(line)
	switch {
	case f["dir"] != nil:
		return v.Entry(word(f["dir"]), f["frame"])
	case f["id"] != nil:
		_, out := v.Question(f["params"])
		return out
	default:
		return v.Notification(word(f["method"]), f["params"])
	}
}

func chunk(kind, text string) []byte {
	return fmt.Appendf(nil, `{"update":{"sessionUpdate":%q,"content":{"type":"text","text":%s}}}`, kind, acp.Quoted(text))
}

// An agent's words command no terminal and pose as nobody else's.
func TestNothingThatAnAgentSaysCommandsATerminal(t *testing.T) {
	for text, want := range map[string]string{
		"\x1b]0;title\a":             "␛]0;title␇",
		"\x1b[2J\x1b[31mred":         "␛[2J␛[31mred",
		"\u009b31mC1":                "\ufffd31mC1",
		"a\rb\r\nc\r":                "a␍b\nc",
		"\u202egnihton\u2066":        "\ufffdgnihton\ufffd",
		"tab\tü😀 a\u200dn":           "tab\tü😀 a\u200dn",
		"\x00\x7f\u200b\ufeff\u2028": "␀␡\ufffd\ufffd\ufffd",
		"\xff\xc3":                   "\ufffd\ufffd",
		"\U000e0041":                 "\ufffd",
	} {
		assert.Equal(t, want, string(Clean(nil, []byte(text))))
	}
	v := New(Config{})
	out := string(v.Notification("session/update", chunk("agent_message_chunk", "ok\n\x1b[1A── run team/x ended: Succeeded (Completed)")))
	assert.NotContains(t, out, "\x1b")
	assert.Equal(t, "one two", Line(" one\n\n\ttwo ", 80))
	assert.Equal(t, "one t…", Line("one two", 6))
	assert.Empty(t, Line(strings.Repeat(" ", 1000)+"x", 6))
}

// A message costs no more than itself, however big, and shows a bounded text.
func TestABigUpdateCostsBoundedMemory(t *testing.T) {
	const whole, size, allowed = 32 << 20, 4 << 20, 3 << 20
	for name, params := range map[string]string{
		"text": string(chunk("agent_message_chunk", strings.Repeat("x", whole))),
		"tool": `{"update":{"sessionUpdate":"tool_call","toolCallId":"1","title":"t","status":"completed","content":[{"type":"content","content":{"type":"text","text":"` + strings.Repeat("y\\n", size/3) + `"}}]}}`,
		"diff": `{"update":{"sessionUpdate":"tool_call","toolCallId":"1","title":"t","status":"completed","content":[{"type":"diff","path":"p","oldText":"` + strings.Repeat("y\\n", size/6) + `","newText":"` + strings.Repeat("z\\n", size/6) + `"}]}}`,
		"kind": `{"update":{"sessionUpdate":"` + strings.Repeat("k", size) + `"}}`,
		"id":   `{"update":{"sessionUpdate":"tool_call","toolCallId":"` + strings.Repeat("k", size) + `"}}`,
		"plan": `{"update":{"sessionUpdate":"plan","entries":[` + strings.TrimSuffix(strings.Repeat(`{"content":"x"},`, size/16), ",") + `]}}`,
	} {
		v, message := New(Config{}), []byte(params)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		out := v.Notification("session/update", message)
		runtime.ReadMemStats(&after)
		assert.LessOrEqual(t, len(out), 2*maxText, name)
		assert.NotEmpty(t, out, name)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(allowed), name)
		if name == "text" {
			assert.Contains(t, string(out), "bytes more")
		}
	}
}

// A text is cut between characters and between escapes, never within.
func TestATextIsCutBetweenCharacters(t *testing.T) {
	for _, unit := range []string{`\ud83d\ude00`, `ü`, `😀`, `\\`, `\"`, `\u00fc`, `a`} {
		value := []byte(`"` + strings.Repeat(unit, 80) + `"`)
		whole, more := quoted(value, len(value))
		assert.Zero(t, more)
		for limit := 1; limit < 60; limit++ {
			text, more := quoted(value, limit)
			assert.True(t, strings.HasPrefix(string(whole), string(text)), "%s at %d: %q", unit, limit, text)
			assert.Positive(t, more)
			assert.Equal(t, len(value)-2, more+len(text)/len(first(whole))*len(unit), "%s at %d", unit, limit)
		}
	}
}

func first(text []byte) []byte { _, size := utf8.DecodeRune(text); return text[:size] }

// In a session that has several runs, only the one that was asked for is shown; and of it only the attempt.
func TestOfAStandingSessionOnlyTheRunIsShown(t *testing.T) {
	note := func(uid, state string, attempt int) string {
		return fmt.Sprintf(`{"update":{"sessionUpdate":"session_info_update","_meta":{"hearth":{"run":{"namespace":"t","name":"n","uid":%q},"attempt":%d,"state":%q}}}}`, uid, attempt, state)
	}
	v, out := New(Config{RunUID: "b", Attempt: 2}), ""
	for _, params := range []string{
		note("a", Running, 1), string(chunk("agent_message_chunk", "of a")), note("a", Ended, 1),
		note("b", Running, 1), string(chunk("agent_message_chunk", "of b, lost")), note("b", Ended, 1),
		note("b", Running, 2), string(chunk("agent_message_chunk", "of b")), note("b", Ended, 2),
		string(chunk("user_message_chunk", "a client's own")), note("c", Running, 1), string(chunk("agent_message_chunk", "of c")),
	} {
		out += string(v.Notification("session/update", []byte(params)))
	}
	assert.Equal(t, "── run t/n, attempt 2 begins\nof b\n── run t/n, attempt 2 ended: ()\n", out)
	assert.Equal(t, Note{RunUID: "c", State: Running, Attempt: 1}, v.Note())
}

// The key of an answer is the place of the option; what the agent offers beyond nine has none.
func TestAQuestionOffersAtMostNineAnswers(t *testing.T) {
	var options []string
	for i := range 12 {
		options = append(options, fmt.Sprintf(`{"optionId":"o%d","name":"Allow\u001b[2J","kind":"reject_once"}`, i))
	}
	got, out := New(Config{}).Question([]byte(`{"toolCall":{"title":"shell","rawInput":{"command":"rm"}},"options":[` + strings.Join(options, ",") + `]}`))
	require.Len(t, got, 9)
	assert.Equal(t, `"o8"`, string(got[8].ID))
	assert.Contains(t, string(out), "1  Allow␛[2J (reject_once)")
	assert.Contains(t, string(out), `shell {"command":"rm"}`)
	assert.Contains(t, string(out), "and 3 more, which have no key")
}

func harmless(t *testing.T, out []byte) {
	t.Helper()
	require.True(t, utf8.Valid(out), "%q", out)
	for _, r := range string(out) {
		require.False(t, unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r), "%q", out)
	}
}

func FuzzClean(f *testing.F) {
	f.Add([]byte("\x1b[2J\u202e\r\n\xff"))
	f.Fuzz(func(t *testing.T, text []byte) {
		out := Clean(nil, text)
		harmless(t, out)
		require.LessOrEqual(t, len(out), 3*len(text)+3)
		require.Equal(t, string(out), string(Clean(nil, out)), "what is clean stays")
	})
}

func FuzzView(f *testing.F) {
	files, err := filepath.Glob("testdata/*.jsonl")
	require.NoError(f, err)
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(content)
		for line := range strings.Lines(string(content)) {
			f.Add([]byte(line))
		}
	}
	f.Fuzz(func(t *testing.T, messages []byte) {
		v, out := New(Config{Width: 50}), []byte(nil)
		for line := range strings.Lines(string(messages)) {
			out = append(out, show(v, []byte(line))...)
			out = append(out, v.Entry("out", []byte(line))...)
			out = append(out, v.Failed("it", []byte(line))...)
		}
		harmless(t, append(out, v.End()...))
	})
}
