package journal

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

func runsOf(p Page) []string {
	out := []string{}
	for _, a := range p.Runs {
		out = append(out, a.Run.UID+"/"+string(a.State))
	}
	return out
}

// SPEC.md, Endpoints: the feed shows each attempt's newest state once, in the order of change, without envelopes.
func TestTheFeedShowsWhatChangedSince(t *testing.T) {
	j := mustOpen(t, memoryTempDir(t))
	start := j.Revision()
	_, err := j.Accept(request("a", 1))
	require.NoError(t, err)
	_, err = j.Accept(request("b", 1))
	require.NoError(t, err)
	_, err = j.Start(key("a", 1), "s")
	require.NoError(t, err)
	p, err := j.Changes(start, 1<<20)
	require.NoError(t, err)
	assert.Equal(t, []string{"b/accepted", "a/running"}, runsOf(p))
	_, err = j.Finish(key("a", 1), done("x"))
	require.NoError(t, err)
	p, err = j.Changes(p.Revision, 1<<20)
	require.NoError(t, err)
	assert.Equal(t, []string{"a/finished"}, runsOf(p))
	assert.Nil(t, p.Runs[0].Envelope)
	p, err = j.Changes(p.Revision, 1<<20)
	require.NoError(t, err)
	assert.Empty(t, p.Runs)
	assert.NotNil(t, p.Runs, "an empty list, never null")

	require.NoError(t, j.Recorded(key("a", 1)))
	p, err = j.Changes(0, 1<<20)
	require.NoError(t, err)
	assert.Equal(t, []string{"b/accepted"}, runsOf(p), "what is recorded needs nobody")
	before := j.Revision()
	j.Touch()
	assert.Greater(t, j.Revision(), before)
}

func TestTheFeedIsPagedAndLosesNothing(t *testing.T) {
	j := mustOpen(t, memoryTempDir(t))
	var want []string
	for i := range 20 {
		run := fmt.Sprintf("run-%02d", i)
		_, err := j.Accept(request(run, 1))
		require.NoError(t, err)
		want = append(want, run+"/accepted")
	}
	one, err := wire.Encode(j.Accepted()[0].Attempt)
	require.NoError(t, err)
	var got []string
	var since int64
	for pages := 1; ; pages++ {
		p, err := j.Changes(since, 3*(len(one)+1))
		require.NoError(t, err)
		assert.LessOrEqual(t, len(p.Runs), 3)
		got = append(got, runsOf(p)...)
		since = p.Revision
		if !p.More {
			assert.Equal(t, 7, pages)
			break
		}
	}
	assert.Equal(t, want, got)
	p, err := j.Changes(0, 1)
	require.NoError(t, err)
	assert.Len(t, p.Runs, 1, "a page always makes progress")
}

func TestAChangeWakesThoseWhoWait(t *testing.T) {
	j := mustOpen(t, memoryTempDir(t))
	for name, change := range map[string]func() error{
		"accept": func() error { _, err := j.Accept(request("a", 1)); return err },
		"touch":  func() error { j.Touch(); return nil },
	} {
		changed := j.Changed()
		require.NoError(t, change())
		select {
		case <-changed:
		default:
			t.Errorf("%s did not wake", name)
		}
	}
	accepted, running := j.Counts()
	assert.Equal(t, []int{1, 0}, []int{accepted, running})
}
