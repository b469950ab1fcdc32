package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/test/bench/load"
	"github.com/hearthdev/hearth/test/bench/node"
	"github.com/hearthdev/hearth/test/bench/rig"
)

func TestAFlagThatCannotBeUsedIsNamed(t *testing.T) {
	for want, args := range map[string][]string{
		`expected some of P1,P2,P3,P9, "P4" is none`:                          {"-only", "P1,P4"},
		"-rounds=0: expected 1 at least":                                      {"-rounds", "0"},
		"-update: expected no -profile":                                       {"-update", "-profile", "x"},
		"-update: expected no -profile, no -no-fsync, no -flood and 3 rounds": {"-update", "-rounds", "2"},
		"-flood=20: expected 1000 at least":                                   {"-flood", "20"},
		`unexpected argument "P1"`:                                            {"P1"},
	} {
		_, err := parse(args, io.Discard)
		assert.ErrorContains(t, err, want, args)
	}
	o, err := parse([]string{"-only", "P2,P9", "-update"}, io.Discard)
	require.NoError(t, err)
	assert.True(t, o.wants("P9"))
	assert.False(t, o.wants("P1"))
	o, err = parse(nil, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, 9_900, o.flood)
	for _, id := range figureIDs {
		assert.True(t, o.wants(id))
	}
}

func example() outcome {
	at := func(millis int) time.Time { return time.Unix(0, 0).Add(time.Duration(millis) * time.Millisecond) }
	return outcome{
		done: load.Done{CPU: 20 * time.Millisecond, Runs: []load.Run{
			{UID: "a", Sent: at(0), Created: at(5), Written: at(8), Ended: at(40)},
			{UID: "b", Sent: at(100), Created: at(104), Written: at(109), Ended: at(120)}}},
		times: map[string]node.Times{"a": {Received: at(10)}, "b": {Received: at(130)}},
	}
}

func TestATimeIsBetweenTwoMomentsOfTheSameRun(t *testing.T) {
	o := example()
	assert.InDelta(t, 10, percentile(o, 50, sent, received), 1e-9)
	assert.InDelta(t, 30, percentile(o, 99, sent, received), 1e-9)
	assert.InDelta(t, 5, percentile(o, 50, created, received), 1e-9)
	assert.InDelta(t, 8, percentile(o, 50, sent, written), 1e-9)
	assert.InDelta(t, 20, percentile(o, 50, sent, ended), 1e-9)
	assert.InDelta(t, 2/0.12, rate(o), 1e-9)
}

func TestACostIsOfEachRunAndTheMedianOfRounds(t *testing.T) {
	second := func(n int) outcome {
		o := example()
		o.cost = cost(rig.CPU{APIServer: time.Duration(n) * time.Second, Etcd: time.Second, Controller: 2 * time.Second, Node: 4 * time.Second}, o.done)
		return o
	}
	assert.Equal(t, map[string]float64{apiServer: 1000, etcd: 500, controller: 1000, nodes: 2000, loader: 10}, costs([]outcome{second(1), second(2), second(9)}))
	assert.InDelta(t, 1500, serverCost(second(2)), 1e-9)
}

// A process that gave none, or the beginning of one, leaves no file that looks like a profile.
func TestAProfileThatWasNotReadIsNotKept(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/none":
			w.WriteHeader(http.StatusInternalServerError)
		case "/cut":
			w.Header().Set("Content-Length", "9")
		}
		_, _ = io.WriteString(w, "profile")
	}))
	t.Cleanup(s.Close)
	b := &bench{options: options{profile: t.TempDir()}}
	require.ErrorContains(t, b.keep(t.Context(), "none", s.URL+"/none"), "500")
	require.ErrorIs(t, b.keep(t.Context(), "cut", s.URL+"/cut"), io.ErrUnexpectedEOF)
	files, err := os.ReadDir(b.profile)
	require.NoError(t, err)
	assert.Empty(t, files)
	require.NoError(t, b.keep(t.Context(), "whole", s.URL+"/whole"))
	kept, err := os.ReadFile(filepath.Join(b.profile, "whole.pprof"))
	require.NoError(t, err)
	assert.Equal(t, "profile", string(kept))
}

func TestAllPodsAreAtWorkWhenTheLastHasItsFirstGoal(t *testing.T) {
	o := example()
	at := o.done.Runs[0].Sent
	begin := func(run, pod string, millis int) {
		o.times[run] = node.Times{Pod: pod, Begun: at.Add(time.Duration(millis) * time.Millisecond)}
	}
	o.done.Runs = append(o.done.Runs, load.Run{UID: "c", Sent: at.Add(time.Second)})
	begin("a", "one", 900)
	begin("b", "one", 200)
	begin("c", "two", 500)
	assert.InDelta(t, 0.5, atWork(o), 1e-9)
}
