package transcript

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	goodHeader = `{"hearth":"transcript/v1","session":"s1","begun":"2026-01-02T12:00:00Z","first":1}` + "\n"
	goodEntry  = `{"seq":1,"time":"2026-01-02T12:00:00Z","dir":"out","frame":{"a":1}}` + "\n"
)

// readAll reads until an error, which io.EOF is not.
func readAll(stream string) ([]Entry, error) {
	r, err := NewReader(strings.NewReader(stream))
	if err != nil {
		return nil, err
	}
	var out []Entry
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, e)
	}
}

func TestTheReaderTakesNothingOnTrust(t *testing.T) {
	entry := func(old, replacement string) string {
		return goodHeader + strings.Replace(goodEntry, old, replacement, 1)
	}
	for name, row := range map[string]struct {
		in    string
		match error
		text  string
	}{
		"nothing":            {"", ErrMalformed, "expected a header"},
		"no header":          {goodEntry, ErrMalformed, "header"},
		"another format":     {strings.Replace(goodHeader, "v1", "v2", 1), ErrMalformed, "transcript/v1"},
		"unknown in header":  {strings.Replace(goodHeader, `"first"`, `"x":1,"first"`, 1), ErrMalformed, "header"},
		"first is 0":         {strings.Replace(goodHeader, `"first":1`, `"first":0`, 1), ErrMalformed, "first entry"},
		"torn header":        {strings.TrimSpace(goodHeader), ErrTorn, "line 1"},
		"long header":        {`{"session":"` + strings.Repeat("x", maxHeaderBytes) + "\"}\n", ErrMalformed, "at most 65536 bytes"},
		"torn":               {strings.TrimSuffix(goodHeader+goodEntry, "\n"), ErrTorn, "line 2"},
		"empty lines":        {goodHeader + "\n\n" + goodEntry + "\n", nil, ""},
		"white space":        {goodHeader + " \n", ErrMalformed, "line 2"},
		"no object":          {goodHeader + "[]\n", ErrMalformed, "an object"},
		"missing":            {entry(`"dir":"out",`, ""), ErrMalformed, "expected seq, time, dir and frame"},
		"unknown":            {entry(`"dir"`, `"Dir"`), ErrMalformed, `"Dir": expected seq`},
		"twice":              {entry(`"dir":"out"`, `"dir":"out","dir":"in"`), ErrMalformed, "twice"},
		"direction":          {entry(`"out"`, `"up"`), ErrMalformed, `got "up"`},
		"time":               {entry("2026-01-02T12:00:00Z", "noon"), ErrMalformed, "time"},
		"two on a line":      {goodHeader + strings.TrimSpace(goodEntry) + goodEntry, ErrMalformed, "one entry on a line"},
		"seq 0":              {entry(`"seq":1`, `"seq":0`), ErrMalformed, "from 1"},
		"a huge number":      {entry(`"seq":1`, `"seq":99999999999999999999`), ErrMalformed, `"seq"`},
		"a negative number":  {entry(`"seq":1`, `"seq":-1`), ErrMalformed, `"seq"`},
		"a gap":              {entry(`"seq":1`, `"seq":2`), ErrMalformed, "expected 1, got 2"},
		"going back":         {goodHeader + goodEntry + goodEntry, ErrMalformed, "expected 2, got 1"},
		"a Note that lies":   {entry(`"dir":"out","frame":{"a":1}`, `"dir":"note","frame":{"note":"lost","entries":2}`), nil, ""},
		"a Note too few":     {entry(`"seq":1,"time":"2026-01-02T12:00:00Z","dir":"out","frame":{"a":1}`, `"seq":9,"time":"2026-01-02T12:00:00Z","dir":"note","frame":{"note":"lost","entries":2}`), ErrMalformed, "got 9"},
		"a frame cut short":  {entry(`{"a":1}}`, `{"a":1`), ErrMalformed, "entry"},
		"a frame of garbage": {entry(`{"a":1}`, "\x00"), ErrMalformed, "frame"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readAll(row.in)
			assert.ErrorIs(t, err, row.match)
			if row.match != nil {
				assert.ErrorContains(t, err, row.text)
			}
		})
	}
}

// The order of members and the space between them are nobody's business.
func TestAnEntryIsAnObject(t *testing.T) {
	const shuffled = ` {"frame" : {"a": 1} ,"dir":"in", "seq":1,"time":"2026-01-02T12:00:00Z"} ` + "\n"
	entries, err := readAll(goodHeader + shuffled)
	require.NoError(t, err)
	assert.Equal(t, []Entry{{Seq: 1, Time: noon, Direction: ToAgent, Frame: []byte(`{"a": 1}`)}}, entries)
	_, ok := asWritten([]byte(strings.TrimSpace(goodEntry)))
	assert.True(t, ok, "what is written is read the fast way")
}

func TestTheReaderReadsWhatWasWritten(t *testing.T) {
	h := header("r", 3)
	stream, err := AppendHeader(nil, h, 5)
	require.NoError(t, err)
	stream = AppendEntry(stream, remark(Lost, 5, 9, noon))
	stream = AppendEntry(stream, Entry{Seq: 10, Time: noon, Direction: FromAgent, Frame: []byte(`{"a":1,"a":"\ud800"}`)})
	stream = AppendEntry(stream, Entry{Seq: 11, Time: noon, Direction: Note, Frame: []byte(`{"decision":"allow_once","entries":7}`)})
	entries, err := readAll(string(stream))
	require.NoError(t, err)
	assert.Equal(t, []string{`9 {"note":"lost","entries":5}`, `10 {"a":1,"a":"\ud800"}`, `11 {"decision":"allow_once","entries":7}`}, told(entries))
	r, err := NewReader(bytes.NewReader(stream))
	require.NoError(t, err)
	assert.Equal(t, h, r.Header())
	_, err = NewReader(errReader{})
	assert.ErrorIs(t, err, errBroken)
}

var errBroken = errors.New("broken")

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errBroken }

// Whatever a file holds: no panic, numbers ascend and are accounted for, and what was read is written as something that is read the same.
func FuzzReader(f *testing.F) {
	for _, s := range []string{
		goodHeader + goodEntry, goodHeader + goodEntry[:20], goodHeader + "\x00\x00\n", goodHeader + strings.Replace(goodEntry, `"seq":1`, `"seq":18446744073709551615`, 1),
		goodHeader + strings.Replace(goodEntry, `"out","frame":{"a":1}`, `"note","frame":{"note":"dropped","entries":1}`, 1), strings.Replace(goodHeader, `"first":1`, `"first":18446744073709551615`, 1) + goodEntry,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		for line := range bytes.Lines(stream) { // the fast way and the other one see the same
			line = bytes.TrimSuffix(line, []byte("\n"))
			if fast, ok := asWritten(line); ok {
				slow, err := parseAny(line)
				assert.NoError(t, err)
				assert.Equal(t, string(bytes.TrimSpace(fast.Frame)), string(slow.Frame))
				fast.Frame = slow.Frame
				assert.Equal(t, slow, fast)
			}
		}
		r, err := NewReader(bytes.NewReader(stream))
		if err != nil {
			return
		}
		last := r.last
		again, err := AppendHeader(nil, r.Header(), last+1)
		if err != nil {
			return // longer than it was, by escapes
		}
		var entries []Entry
		for {
			e, err := r.Next()
			if err != nil {
				break
			}
			assert.Equal(t, last+e.Stands(), e.Seq)
			last = e.Seq
			entries = append(entries, e)
			again = AppendEntry(again, e)
			n, ok := seqOf(AppendEntry(nil, e))
			assert.True(t, ok)
			assert.Equal(t, e.Seq, n)
		}
		same, err := readAll(string(again))
		assert.NoError(t, err)
		assert.Equal(t, told(entries), told(same))
	})
}
