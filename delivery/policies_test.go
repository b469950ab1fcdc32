package delivery

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// SPEC.md, Lifecycle, Send: the four outcomes.
func TestWhatAReplyProves(t *testing.T) {
	for status, want := range map[int]SendOutcome{200: SendAccepted, 202: SendAccepted, 400: SendRejected,
		401: SendNotTaken, 406: SendNotTaken, 413: SendNotTaken, 415: SendNotTaken, 421: SendNotTaken, 429: SendNotTaken, 503: SendNotTaken, 507: SendNotTaken,
		0: SendUnknown, 204: SendUnknown, 301: SendUnknown, 404: SendUnknown, 409: SendUnknown, 410: SendUnknown, 412: SendUnknown, 500: SendUnknown, 502: SendUnknown} {
		assert.Equal(t, want, Classify(Reply{Verified: true, Status: status}), status)
		assert.Equal(t, SendUnknown, Classify(Reply{Status: status}), "R26, row 27: a stranger's status proves nothing")
	}
	assert.Equal(t, SendNotTaken, Classify(Reply{NeverLeft: true}))
}

// R42, SPEC.md, Lifecycle, run deleted.
func TestOrphan(t *testing.T) {
	wanted := RunRead{Live: true, Found: true, UID: "run-1", Attempt: 1, PodUID: "pod-1"}
	read := func(change func(*RunRead)) RunRead {
		r := wanted
		change(&r)
		return r
	}
	alive, ended := told(wire.StateRunning), told(wire.StateFinished)
	for name, c := range map[string]struct {
		a    *wire.Attempt
		run  RunRead
		want OrphanAction
	}{
		"wanted":                                   {alive, wanted, OrphanLeave},
		"wanted, by the cache":                     {alive, read(func(r *RunRead) { r.Live = false }), OrphanLeave},
		"missing in the cache: read live":          {alive, RunRead{}, OrphanReadRun},
		"another attempt in the cache: read live":  {alive, read(func(r *RunRead) { r.Live, r.Attempt = false, 2 }), OrphanReadRun},
		"terminal in the cache: read live":         {alive, read(func(r *RunRead) { r.Live, r.Terminal = false, true }), OrphanReadRun},
		"deleted (row 31)":                         {alive, RunRead{Live: true}, OrphanCancel},
		"deleted while it queued (row 53)":         {told(wire.StateAccepted), RunRead{Live: true}, OrphanCancel},
		"deleted and made again (row 32)":          {alive, read(func(r *RunRead) { r.UID = "run-2" }), OrphanCancel},
		"forbidden proves nothing":                 {alive, RunRead{Live: true, Failed: true}, OrphanLeave},
		"moved to another attempt":                 {alive, read(func(r *RunRead) { r.Attempt = 2 }), OrphanCancel},
		"moved to another Pod (row 46)":            {alive, read(func(r *RunRead) { r.PodUID = "pod-2" }), OrphanCancel},
		"given back":                               {alive, read(func(r *RunRead) { r.PodUID = "" }), OrphanCancel},
		"recorded without it":                      {alive, read(func(r *RunRead) { r.Terminal = true }), OrphanCancel},
		"being cancelled already":                  {told(wire.StateRunning, stopping), RunRead{Live: true}, OrphanLeave},
		"of another namespace":                     {told(wire.StateRunning, func(a *wire.Attempt) { a.Run.Namespace = "other" }), RunRead{Live: true}, OrphanLeave},
		"voided":                                   {told(wire.StateVoided), RunRead{Live: true}, OrphanLeave},
		"result wanted":                            {ended, wanted, OrphanLeave},
		"result recorded, ack lost (row 6)":        {ended, read(func(r *RunRead) { r.Terminal, r.Recorded = true, true }), OrphanMarkRecorded},
		"result recorded, by the cache: read live": {ended, read(func(r *RunRead) { r.Live, r.Terminal, r.Recorded = false, true, true }), OrphanReadRun},
		"result acknowledged":                      {told(wire.StateFinished, dropped), read(func(r *RunRead) { r.Terminal, r.Recorded = true, true }), OrphanLeave},
		"result after the record (row 25)":         {ended, read(func(r *RunRead) { r.Terminal = true }), OrphanLateResult},
		"result of a deleted run":                  {ended, RunRead{Live: true}, OrphanMarkRecorded},
		"result of a lost attempt (row 46)":        {ended, read(func(r *RunRead) { r.Attempt, r.PodUID = 2, "pod-2" }), OrphanMarkRecorded},
		"result, run not readable":                 {ended, RunRead{Live: true, Failed: true}, OrphanLeave},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, Orphan(*c.a, "team", "pod-1", c.run)) })
	}
}

// SPEC.md, Lifecycle: per target, jittered, 1 s to 5 min; Retry-After within the same bounds.
func TestBackoff(t *testing.T) {
	for failures, want := range map[int]time.Duration{-1: time.Second, 0: time.Second, 1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 9: 256 * time.Second, 10: MaxBackoff, 1 << 40: MaxBackoff} {
		assert.Equal(t, want, Backoff(failures, 0), failures)
		assert.LessOrEqual(t, Backoff(failures, 0.999), want)
		assert.GreaterOrEqual(t, Backoff(failures, 0.999), max(want/2, MinBackoff))
	}
	assert.Less(t, Backoff(5, 0.9), Backoff(5, 0.1))
	for asked, want := range map[time.Duration]time.Duration{-time.Hour: MinBackoff, 0: MinBackoff, time.Minute: time.Minute, time.Hour: MaxBackoff} {
		assert.Equal(t, want, RetryAfter(asked))
	}
}

// R29: 1 s doubling to 60 s.
func TestRecastBackoff(t *testing.T) {
	var got []time.Duration
	for recasts := 1; recasts <= 8; recasts++ {
		got = append(got, RecastBackoff(recasts)/time.Second)
	}
	assert.Equal(t, []time.Duration{1, 2, 4, 8, 16, 32, 60, 60}, got)
}

func TestStartWithinIsWhatIsLeft(t *testing.T) {
	run := Run{Created: noon, Starting: time.Minute}
	assert.Equal(t, int64(60), StartWithin(noon, run))
	assert.Equal(t, int64(1), StartWithin(noon.Add(59*time.Second+1), run))
	assert.Equal(t, int64(1), StartWithin(noon.Add(time.Hour), run), "a limit is positive")
	run.Starting = 1 << 62
	assert.Equal(t, int64(wire.MaxSeconds), StartWithin(noon, run))
}
