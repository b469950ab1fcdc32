package endpoint

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/transcript"
)

func shelf(t *testing.T) (*transcript.Store, *transcript.Book) {
	t.Helper()
	s, err := transcript.Open(transcript.Config{Dir: t.TempDir(), Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	b, err := s.Begin(transcript.Header{Run: wire.RunRef{Namespace: "team", Name: "r", UID: "run-uid-1"}, Attempt: 1, Session: "s", Agent: "goose"})
	require.NoError(t, err)
	return s, b
}

// page is an answer; its body is closed with the test.
type page struct {
	StatusCode int
	Header     http.Header
	Body       io.Reader
}

func fetch(t *testing.T, e *Endpoint, method, target, key string) page {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+e.Addr()+target, nil)
	require.NoError(t, err)
	r.Header.Set(HeaderKey, key)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	response, err := transport.RoundTrip(r)
	require.NoError(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	return page{response.StatusCode, response.Header, response.Body}
}

func seqs(t *testing.T, r *transcript.Reader) []uint64 {
	t.Helper()
	var all []uint64
	for {
		entry, err := r.Next()
		if err != nil {
			require.ErrorIs(t, err, io.EOF)
			return all
		}
		all = append(all, entry.Seq)
	}
}

// SPEC.md, Transcripts: header, then what came after an entry; with the view key as with the other.
func TestTranscriptsAreRead(t *testing.T) {
	s, b := shelf(t)
	for n := range 3 {
		b.Append(transcript.FromAgent, fmt.Appendf(nil, `{"n":%d,"x":"%s"}`, n, strings.Repeat("x", 200<<10)))
	}
	e, _ := open(t, Config{Keys: keys, Transcripts: s, pace: rapid()})
	for target, want := range map[string][]uint64{
		"/runs/run-uid-1/transcript":                                             {1, 2, 3},
		"/runs/run-uid-1/transcript?after=0&follow=false":                        {1, 2, 3},
		"/runs/run-uid-1/transcript?after=2":                                     {3},
		"/runs/run-uid-1/transcript?after=3":                                     nil,
		"/runs/run-uid-1/transcript?after=1000":                                  nil,
		fmt.Sprintf("/runs/run-uid-1/transcript?after=%d", int64(math.MaxInt64)): nil,
	} {
		for _, key := range []string{viewKey, steerKey} {
			response := fetch(t, e, http.MethodGet, target, key)
			require.Equal(t, http.StatusOK, response.StatusCode)
			assert.Equal(t, "application/x-ndjson", response.Header.Get("Content-Type"))
			r, err := transcript.NewReader(response.Body)
			require.NoError(t, err)
			assert.Equal(t, b.Header().Run, r.Header().Run)
			assert.Equal(t, want, seqs(t, r), target)
		}
	}
}

// What cannot be asked is refused, by name of the field, and nobody without a key learns which runs there are.
func TestTranscriptsThatCannotBeAskedFor(t *testing.T) {
	s, _ := shelf(t)
	e, _ := open(t, Config{Keys: keys, Transcripts: s, pace: rapid()})
	none, _ := open(t, Config{Keys: keys, pace: rapid()})
	for target, c := range map[string]struct {
		method, key string
		status      int
		says        string
	}{
		"/runs/run-uid-1/transcript":                           {http.MethodGet, "wrong", 401, "key"},
		"/runs/run-uid-2/transcript?after=1":                   {http.MethodGet, "wrong", 401, "key"},
		"/runs/run-uid-2/transcript":                           {http.MethodGet, viewKey, 404, "uid"},
		"/runs//transcript":                                    {http.MethodGet, viewKey, 400, "uid"},
		"/runs/../transcript":                                  {http.MethodGet, viewKey, 400, "uid"},
		"/runs/a%2Fb/transcript":                               {http.MethodGet, viewKey, 404, "endpoint"},
		"/runs/a%00/transcript":                                {http.MethodGet, viewKey, 400, "uid"},
		"/runs/" + strings.Repeat("a", 129) + "/transcript":    {http.MethodGet, viewKey, 400, "uid"},
		"/runs/run-uid-1/transcript/":                          {http.MethodGet, viewKey, 404, "endpoint"},
		"/runs/run-uid-1":                                      {http.MethodGet, viewKey, 404, "endpoint"},
		"/runs/run-uid-1/transcript?after=":                    {http.MethodGet, viewKey, 400, "after"},
		"/runs/run-uid-1/transcript?after=-1":                  {http.MethodGet, viewKey, 400, "after"},
		"/runs/run-uid-1/transcript?after=%2B1":                {http.MethodGet, viewKey, 400, "after"},
		"/runs/run-uid-1/transcript?after=1e3":                 {http.MethodGet, viewKey, 400, "after"},
		"/runs/run-uid-1/transcript?after=9223372036854775808": {http.MethodGet, viewKey, 400, "after"},
		"/runs/run-uid-1/transcript?after=1&after=2":           {http.MethodGet, viewKey, 400, "once"},
		"/runs/run-uid-1/transcript?follow=yes":                {http.MethodGet, viewKey, 400, "follow"},
		"/runs/run-uid-1/transcript?folow=true":                {http.MethodGet, viewKey, 400, "query"},
		"/runs/run-uid-1/transcript?a=%zz":                     {http.MethodGet, viewKey, 400, "query"},
		"/runs/run-uid-1/transcript?follow=true":               {http.MethodPost, viewKey, 405, "GET"},
	} {
		for _, at := range []*Endpoint{e, none} {
			response := fetch(t, at, c.method, target, c.key)
			body, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			assert.Equal(t, c.status, response.StatusCode, target)
			assert.Contains(t, string(body), c.says, target)
			assert.NotContains(t, string(body), viewKey)
		}
	}
	assert.Equal(t, http.StatusNotFound, fetch(t, none, http.MethodGet, "/runs/run-uid-1/transcript", viewKey).StatusCode)
}

// R51: who follows a run reads it live, to its end, and idle lines on the way keep proxies from cutting it off.
func TestATranscriptIsFollowed(t *testing.T) {
	s, b := shelf(t)
	p := rapid()
	p.ping = 10 * time.Millisecond
	e, _ := open(t, Config{Keys: keys, Transcripts: s, pace: p})
	b.Append(transcript.ToAgent, []byte(`{}`))
	lines := bufio.NewReader(fetch(t, e, http.MethodGet, "/runs/run-uid-1/transcript?follow=true", viewKey).Body)
	next := func() string {
		for {
			line, err := lines.ReadString('\n')
			require.NoError(t, err)
			if line != "\n" {
				return line
			}
		}
	}
	assert.Contains(t, next(), `"hearth":"transcript/v1"`)
	for n := range 20 {
		assert.Contains(t, next(), fmt.Sprintf(`{"seq":%d,`, n+1))
		b.Append(transcript.FromAgent, []byte(`{}`))
	}
	line, err := lines.ReadString('\n')
	for ; err == nil && strings.HasPrefix(line, `{"seq":21,`); line, err = lines.ReadString('\n') {
	}
	require.NoError(t, err)
	assert.Equal(t, "\n", line, "a sign of life")
	require.NoError(t, b.Close())
	rest, err := io.ReadAll(lines)
	require.NoError(t, err)
	assert.Empty(t, strings.Trim(string(rest), "\n"))
}

// Bounded: so many at once; and who does not read is not waited for.
func TestReadersOfTranscriptsAreBounded(t *testing.T) {
	s, b := shelf(t)
	p := rapid()
	p.stall, p.ping = 50*time.Millisecond, 50*time.Millisecond
	e, _ := open(t, Config{Keys: keys, Transcripts: s, pace: p})
	const target = "/runs/run-uid-1/transcript?follow=true"
	for range maxTranscripts - 1 {
		e.shelf <- struct{}{}
	}
	require.Equal(t, http.StatusOK, fetch(t, e, http.MethodGet, target, viewKey).StatusCode)
	assert.Equal(t, http.StatusServiceUnavailable, fetch(t, e, http.MethodGet, target, viewKey).StatusCode)
	for range 12 { // more than fits into anybody's buffers
		b.Append(transcript.FromAgent, fmt.Appendf(nil, `"%s"`, strings.Repeat("x", 1<<20)))
	}
	require.Eventually(t, func() bool {
		return fetch(t, e, http.MethodGet, "/runs/run-uid-1/transcript?after=1000", viewKey).StatusCode == http.StatusOK
	}, patience, 10*time.Millisecond)
}

func FuzzParseWanted(f *testing.F) {
	f.Add("run-uid-1", "after=1&follow=true&token=x")
	f.Add("", "%zz")
	f.Fuzz(func(t *testing.T, uid, query string) {
		w, err := parseWanted(uid, query)
		if err != nil {
			assert.NotContains(t, err.Error(), "\n")
			return
		}
		assert.Regexp(t, uidForm(), w.uid)
	})
}
