package main

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/test/bench/figures"
	"github.com/hearthdev/hearth/test/bench/node"
)

func TestSamplesAreAddedUpByNameAndLabel(t *testing.T) {
	m := parse([]byte(`# HELP depth Of queues.
depth{name="a",priority="0"} 3
depth{name="a",priority="-1"} 2
depth{name="b"} 40
depth_total 7
go_goroutines 1.5e+02
broken
`))
	assert.InDelta(t, 45, m.sum("depth"), 0)
	assert.InDelta(t, 5, m.sum("depth", `name="a"`), 0)
	assert.InDelta(t, 2, m.sum("depth", `name="a"`, `priority="-1"`), 0)
	assert.InDelta(t, 150, m.sum("go_goroutines"), 0)
	assert.Zero(t, m.sum("nothing"))
}

// A Pod that proved who it is has not told what it holds.
func TestATargetIsListedWhenItAnsweredWithItsList(t *testing.T) {
	assert.Equal(t, 1, listed([]node.PodCounts{{}, {Requests: map[string]int64{"challenge": 1}}, {Requests: map[string]int64{"challenge": 1, "changes": 2}}}))
}

func TestANumberIsReadFromItsLine(t *testing.T) {
	text := []byte("# HeapAlloc = 123\n# Stack = 45 / 67\nVmRSS:\t  89 kB\nVmHWM:\n")
	for prefix, want := range map[string]int64{"# HeapAlloc = ": 123, "# Stack = ": 45, "VmRSS:": 89} {
		got, err := field(text, prefix)
		require.NoError(t, err)
		assert.Equal(t, want, got, prefix)
	}
	for _, prefix := range []string{"VmHWM:", "VmSwap:"} {
		_, err := field(text, prefix)
		assert.ErrorContains(t, err, prefix)
	}
}

// A process that gave none leaves no file that looks like a profile.
func TestAProfileThatWasNotReadIsNotKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cpu.pprof")
	require.ErrorIs(t, profiled(file, nil, io.ErrUnexpectedEOF), io.ErrUnexpectedEOF)
	assert.NoFileExists(t, file)
	require.NoError(t, profiled(file, []byte("profile"), nil))
	assert.FileExists(t, file)
}

// A difference of nothing, divided by nothing, is no figure.
func TestSizesThatTellNothingAreRefused(t *testing.T) {
	whole := sizes{few: 500, many: 2000, perAgent: 50, each: 20, records: 100_000}
	require.NoError(t, whole.check(true))
	for want, change := range map[string]func(*sizes){
		"-few, -records: expected 0 or more":            func(s *sizes) { s.records = -1 },
		"-few, -many: expected multiples of -per-agent": func(s *sizes) { s.many = 2001 },
		"and that and -each to be 1 at least":           func(s *sizes) { s.perAgent = 0 },
		"-many=500: expected more than -few=500":        func(s *sizes) { s.many = 500 },
		"-keep: expected targets and records":           func(s *sizes) { s.records = 0 },
		"a result that is kept is a whole one":          func(s *sizes) { s.few = 0 },
	} {
		s := whole
		change(&s)
		assert.ErrorContains(t, s.check(true), want)
	}
	require.NoError(t, sizes{records: 10}.check(false))
	require.NoError(t, sizes{few: 20, many: 40, perAgent: 10, each: 20}.check(false))
}

// P6 and P7 are judged by these: a figure that misses its aim must say so.
func TestEachAimIsJudged(t *testing.T) {
	good := measured{sizes: sizes{few: 500, many: 2000, perAgent: 50, each: 20}}
	good.again.lists, good.again.goroutines, good.again.peak = 1, 2064, 300<<20
	good.few.live, good.done.live, good.many.live = 500*50<<10, 500*50<<10, 2000*50<<10
	bad := good
	bad.again.lists, bad.again.goroutines, bad.again.peak, bad.again.others, bad.doubled = 2, 2065+10, 302<<20, 1, 1
	bad.again.took = 11e9
	bad.few.live, bad.many.live = 500*51<<10, 2000*52<<10
	met := func(m measured) (yes, no int) {
		for _, f := range m.figures() {
			if f.Met != nil && *f.Met {
				yes++
			} else if f.Met != nil {
				no++
			}
		}
		return yes, no
	}
	yes, no := met(good)
	assert.Equal(t, []int{8, 0}, []int{yes, no})
	yes, no = met(bad)
	assert.Equal(t, []int{0, 8}, []int{yes, no})
	assert.NotEmpty(t, figures.Table(figures.Result{Figures: kept{count: 10}.figures()}))
}
