package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/transcript"
)

// rounds is how often the harness is killed; HEARTH_KILLS says how often instead.
func rounds(t *testing.T, usually int) int {
	t.Helper()
	if n := os.Getenv("HEARTH_KILLS"); n != "" {
		usually, err := strconv.Atoi(n)
		require.NoError(t, err)
		return usually
	}
	return usually
}

var counted = regexp.MustCompile(`"\((\d+)\)"`)

// number is what the agent has counted to in a message; 0 where it does not count.
func number(message string) int {
	m := counted.FindStringSubmatch(message)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// get reads a transcript as a person does.
func (b *booted) get(target string) io.ReadCloser {
	b.t.Helper()
	request, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, "http://"+b.acp()+target, nil)
	require.NoError(b.t, err)
	request.Header.Set("Authorization", "Bearer "+viewKey)
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = response.Body.Close() })
	require.Equal(b.t, http.StatusOK, response.StatusCode)
	return response.Body
}

// follow tells of each number that comes by a transcript that is followed, until it breaks off.
func follow(body io.Reader, saw func(int)) {
	lines := bufio.NewReader(body)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		if n := number(line); n > 0 {
			saw(n)
		}
	}
}

// SPEC.md, Transcripts: kill -9 while what comes in quick succession is read, held and written at once. Who watched has seen nothing that
// the transcript does not have; its numbers and the agent's have no gap but that of one note at its end.
func TestWhatWasSeenOfARushOutlivesAKill(t *testing.T) {
	p := newPlace(t)
	p.env = []string{envView + "=" + viewKey}
	torn, killed, unseen := 0, 0, 0
	for round := range rounds(t, 6) {
		b := p.ready()
		run := "run-" + strconv.Itoa(round)
		gate := filepath.Join(t.TempDir(), "gate")
		b.accepted(run, "wait: "+gate+" ;; count: 100000", wire.StateRunning)
		viewer := b.attach(viewKey)
		viewer.loadRun(run)
		body := b.get("/runs/" + run + "/transcript?follow=true")
		seen, followed := make(chan int, 1), make(chan int, 1)
		at := 1 + rand.IntN(6000) //nolint:gosec // any moment will do
		go func() {
			last := 0
			for {
				_, data, err := viewer.conn.Read(context.WithoutCancel(t.Context()))
				if err != nil {
					_ = b.cmd.Process.Kill()
					seen <- last
					return
				}
				if n := number(string(data)); n > 0 {
					assert.Equal(t, last+1, n, "without gap or double")
					if last = n; n == at {
						_ = b.cmd.Process.Kill()
					}
				}
			}
		}()
		go func() {
			last := 0
			follow(body, func(n int) { assert.Equal(t, last+1, n); last = n })
			followed <- last
		}()
		require.NoError(t, os.WriteFile(gate, nil, 0o600))
		<-b.exit
		saw := max(<-seen, <-followed)

		b = p.ready()
		a := b.attempt(run)
		assert.Equal(t, wire.StateFinished, a.State)
		assert.Equal(t, wire.OutcomeInterrupted, a.Envelope.Outcome)
		last, isTorn := b.counts(run)
		assert.GreaterOrEqual(t, last, saw, "what somebody has seen is there")
		unseen += last - saw
		killed++
		if isTorn {
			torn++
		}
		b.kill()
	}
	t.Logf("%d kills: %d torn lines, %d entries on average that nobody had seen", killed, torn, unseen/killed)
}

// loadRun attaches to the session of a run.
func (a *attached) loadRun(run string) {
	a.t.Helper()
	var list struct {
		Result struct {
			Sessions []struct {
				SessionID string `json:"sessionId"`
				Meta      struct {
					Hearth struct {
						Run struct{ UID string } `json:"run"`
					} `json:"hearth"`
				} `json:"_meta"`
			} `json:"sessions"`
		} `json:"result"`
	}
	require.NoError(a.t, json.Unmarshal([]byte(a.ask(`{"jsonrpc":"2.0","id":1,"method":"session/list","params":{}}`)), &list))
	for _, s := range list.Result.Sessions {
		if s.Meta.Hearth.Run.UID == run {
			a.ask(`{"jsonrpc":"2.0","id":2,"method":"session/load","params":{"sessionId":"` + s.SessionID + `","cwd":"/","mcpServers":[]}}`)
			return
		}
	}
	require.Fail(a.t, "there is no session of "+run)
}

// counts reads what is left of a run's transcript: to what the agent had counted, and whether it ends with half a line.
func (b *booted) counts(run string) (last int, torn bool) {
	b.t.Helper()
	reader, err := transcript.NewReader(bufio.NewReader(b.get("/runs/" + run + "/transcript")))
	require.NoError(b.t, err)
	assert.Equal(b.t, run, reader.Header().Run.UID)
	for seq := uint64(0); ; {
		e, err := reader.Next()
		if err != nil {
			require.ErrorIs(b.t, err, io.EOF)
			return last, torn
		}
		require.False(b.t, torn, "a torn line is the last")
		seq += e.Stands()
		require.Equal(b.t, seq, e.Seq)
		if e.Direction == transcript.Note {
			torn = string(e.Frame) == `{"note":"torn","entries":1}`
			continue
		}
		if n := number(string(e.Frame)); n > 0 {
			require.Equal(b.t, last+1, n)
			last = n
		}
	}
}
