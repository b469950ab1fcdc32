package main

import (
	"fmt"
	"time"

	"github.com/hearthdev/hearth/test/bench/figures"
	"github.com/hearthdev/hearth/test/bench/rig"
)

const kib = 1 << 10

// figures are what is kept of what was measured.
func (m measured) figures() []figures.Figure {
	inFlight := m.sizes.few * m.sizes.each
	name := func(text string) string {
		return fmt.Sprintf("%d runs in flight on %d targets: %s", inFlight, m.sizes.few, text)
	}
	millis := func(d time.Duration) float64 { return d.Seconds() * 1000 }
	of := []figures.Figure{
		figures.New("P6", name("controller started again, until all Links are open and every run is attended"), "s", m.again.took.Seconds()).Aims("ours ≤ 10"),
		figures.New("P6", name("its memory then, resident"), "MiB", mib(m.again.peak)).Aims("ours ≤ 300"),
		figures.New("P6", name("its goroutines then, against 64 and 4 a target"), "", float64(m.again.goroutines)).Against(float64(64 + 4*m.sizes.few)).Aims("ratio ≤ 1"),
		figures.New("P6", name("lists that a target was asked for, the most"), "", float64(m.again.lists)).Aims("ours ≤ 1"),
		figures.New("P6", name("requests to targets about single runs"), "", float64(m.again.others)).Aims("ours ≤ 0"),
		figures.New("P6", name("carried out more than once"), "", float64(m.doubled)).Aims("ours ≤ 0"),
		figures.New("P7", "controller memory of an idle standing Pod", "KiB", each(m.few, m.empty, m.sizes.few)).Aims("ours ≤ 50"),
		figures.New("P7", fmt.Sprintf("the same, of the last %d of %d", m.sizes.many-m.sizes.few, m.sizes.many), "KiB", each(m.many, m.done, m.sizes.many-m.sizes.few)).Aims("ours ≤ 50"),
		figures.New("P7", "controller memory of a run in flight", "KiB", each(m.full, m.few, inFlight)),
		figures.New("P7", "controller memory of a finished run", "KiB", each(m.done, m.few, inFlight)),
		figures.New("S1", fmt.Sprintf("short runs, 10/s over %d targets: created → received, p50", m.sizes.few), "ms", m.small.p50).Costs(m.small.costs()),
		figures.New("S1", fmt.Sprintf("the same beside %d runs in flight", inFlight), "ms", m.loaded.p50).Against(m.small.p50).Costs(m.loaded.costs()),
		figures.New("S1", fmt.Sprintf("the same over %d targets", m.sizes.many), "ms", m.large.p50).Against(m.small.p50).Costs(m.large.costs()),
		figures.New("S2", fmt.Sprintf("%d targets: controller started again, until all Links are open", m.sizes.many), "s", m.manyAgain.took.Seconds()),
		figures.New("S2", fmt.Sprintf("%d targets: its memory then, resident", m.sizes.many), "MiB", mib(m.manyAgain.peak)),
		figures.New("S2", fmt.Sprintf("%d targets: processor time of the controller for that, a target", m.sizes.many), "ms", millis(m.manyAgain.cpu.Controller)/float64(m.sizes.many)),
		figures.New("S3", "an idle target for a second: processor time of the controller", "ms",
			(millis(m.idleMany.cpu.Controller)-millis(m.idleFew.cpu.Controller))/float64(m.sizes.many-m.sizes.few)),
		figures.New("S3", fmt.Sprintf("%d idle targets for a second: requests of the controller to the API server", m.sizes.many), "", m.idleMany.requests),
		figures.New("S4", fmt.Sprintf("%d runs at once: a second, until all had begun", inFlight), "runs/s", float64(inFlight)/m.delivering.Seconds()),
		figures.New("S4", fmt.Sprintf("%d runs that end at once: a second, until all were recorded", inFlight), "runs/s", float64(inFlight)/m.writing.Seconds()),
	}
	return of
}

// each is what one of count more costs, in KiB of memory that the controller needs.
func each(after, before usage, count int) float64 {
	return float64(after.live-before.live) / kib / float64(count)
}

// costs are the processor time of one run, in milliseconds.
func (l latency) costs() map[string]float64 { return costs(l.cpu) }

func costs(c rig.CPU) map[string]float64 {
	return map[string]float64{"apiserver": perRun(c.APIServer), "controller": perRun(c.Controller), "etcd": perRun(c.Etcd), "harness": perRun(c.Node)}
}

// figures are what is kept of what was measured with many records.
func (k kept) figures() []figures.Figure {
	name := func(text string) string { return fmt.Sprintf("%d records: %s", k.count, text) }
	return []figures.Figure{
		figures.New("S5", name("short runs, 10/s: created → received, p50, against none"), "ms", k.loaded.p50).Against(k.empty.p50).Aims("ratio ≤ 1.1").Costs(k.loaded.costs()),
		figures.New("S5", name("the same, p99"), "ms", k.loaded.p99).Against(k.empty.p99),
		figures.New("S5", name("controller memory of one"), "KiB", each(k.after, k.before, k.count)),
		figures.New("S5", name("controller started again, until all Links are open"), "s", k.again.took.Seconds()),
		figures.New("S5", name("its memory then, resident at most"), "MiB", mib(k.again.peak)),
		figures.New("S5", name("etcd's database"), "MiB", mib(k.database)),
		figures.New("S5", name("API server's memory, resident"), "MiB", mib(k.apiServer)),
	}
}
