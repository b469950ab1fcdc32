package page

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// crowd is a cluster with 50 Agents and many runs, of which a tenth live.
func crowd(runs int) (agents []*hearthv1.Agent, all []*hearthv1.AgentRun) {
	for i := range 50 {
		a := agentOf(fmt.Sprintf("team-%d", i%5), fmt.Sprintf("agent-%d", i), func(*hearthv1.Agent) {})
		agents = append(agents, a)
		all = append(all, standingOf(a, 1, func(*hearthv1.AgentRun) {}), standingOf(a, 2, func(*hearthv1.AgentRun) {}))
	}
	for i := range runs {
		a := agents[i%len(agents)]
		change := ended(a.Name+"-1", hearthv1.ReasonCompleted, time.Duration(i)*time.Second, time.Minute)
		switch i % 20 {
		case 0:
			change = func(*hearthv1.AgentRun) {}
		case 1:
			change = working(a.Name+"-1", time.Minute)
		}
		all = append(all, runOf(a.Namespace, a.Name, fmt.Sprintf("run-%d", i), time.Duration(i)*time.Second, change))
	}
	return agents, all
}

// What a page costs with 10,000 runs: see docs/page.md.
func BenchmarkPages(b *testing.B) {
	agents, all := crowd(10_000)
	g := newStage(b, agents, all)
	for name, path := range map[string]string{
		"overview": "/", "queue": "/queue", "runs": "/runs", "filtered": "/runs?namespace=team-1&phase=Failed", "agent": "/agents/team-1/agent-1", "run": "/runs/team-2/run-2",
	} {
		b.Run(name, func(b *testing.B) {
			require.Equal(b, 200, g.get(path).Code)
			b.ReportAllocs()
			before := cpu(b)
			for b.Loop() {
				g.get(path)
			}
			b.ReportMetric(float64((cpu(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
		})
	}
}

// cpu is how long this process has been computing: what a page costs on a machine that has other work as well.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// maxIndexed is what a run may take in the index: it is 350, and 490 where those that live, one in ten, are copied.
const maxIndexed = 430

// The index holds the cache's own objects: what it takes beside them, growing included, is a fraction of what they are.
func TestTheIndexCostsLittleMemory(t *testing.T) {
	agents, all := crowd(10_000)
	taken := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.TotalAlloc
	}
	before := taken()
	newStage(t, agents, all)
	each := (taken() - before) / 10_000
	t.Logf("%d bytes a run", each)
	require.Less(t, each, uint64(maxIndexed))
}
