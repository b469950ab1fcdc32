package promcheck

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// step is the time between two scrapes, and between two looks at a rule.
const step = 30 * time.Second

// series answers every question from what a test says was scraped.
type series []promql.Series

func (s series) Querier(int64, int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		set := &found{}
		for _, one := range s {
			matches := true
			for _, m := range matchers {
				matches = matches && m.Matches(one.Metric.Get(m.Name))
			}
			if matches {
				set.series = append(set.series, one)
			}
		}
		return set
	}}, nil
}

type found struct {
	series series
	next   int
}

func (f *found) Next() bool                        { f.next++; return f.next <= len(f.series) }
func (f *found) At() storage.Series                { return promql.NewStorageSeries(f.series[f.next-1]) }
func (f *found) Err() error                        { return nil }
func (f *found) Warnings() annotations.Annotations { return nil }

// scraped reads lines in the notation of promtool's tests: a series, then values for each step.
func scraped(t *testing.T, lines ...string) series {
	t.Helper()
	var all series
	for _, line := range lines {
		metric, values, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(line)
		require.NoError(t, err, line)
		one := promql.Series{Metric: metric}
		for i, v := range values {
			if !v.Omitted {
				one.Floats = append(one.Floats, promql.FPoint{T: int64(i) * step.Milliseconds(), F: v.Value})
			}
		}
		all = append(all, one)
	}
	return all
}

// fires looks at a rule at each step as Prometheus does, and says when it fired first; negative: never.
func fires(t *testing.T, alert string, s series, until time.Duration) time.Duration {
	t.Helper()
	groups, err := rulesOf(rules)
	require.NoError(t, err)
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 100_000, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{})})
	defer func() { _ = engine.Close() }()
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			if r.Alert != alert {
				continue
			}
			since := map[string]time.Duration{} // since when a series of the result has been there without a gap
			for at := time.Duration(0); at <= until; at += step {
				now := map[string]time.Duration{}
				for _, one := range ask(t.Context(), t, engine, s, r.Expr, at) {
					key := one.Metric.String()
					now[key] = at
					if from, was := since[key]; was {
						now[key] = from
					}
					if at-now[key] >= time.Duration(r.For) {
						return at
					}
				}
				since = now
			}
			return -1
		}
	}
	t.Fatalf("no alert %s", alert)
	return 0
}

func ask(ctx context.Context, t *testing.T, engine *promql.Engine, s series, expression string, at time.Duration) promql.Vector {
	t.Helper()
	query, err := engine.NewInstantQuery(ctx, s, nil, expression, time.UnixMilli(at.Milliseconds()))
	require.NoError(t, err)
	defer query.Close()
	vector, err := query.Exec(ctx).Vector()
	require.NoError(t, err, expression)
	return append(promql.Vector{}, vector...)
}

// What should wake somebody does, after the time that it says; what is well, or mends by itself, wakes nobody.
func TestAlertsFireWhenTheyShould(t *testing.T) {
	const (
		agent      = `namespace="team",agent="reviewer"`
		controller = `hearth_build_info{component="controller"} 1x200`
	)
	target := func(state, values string) string {
		return fmt.Sprintf(`hearth_targets{%s,state=%q} %s`, agent, state, values)
	}
	for name, c := range map[string]struct {
		alert string
		lines []string
		after time.Duration // negative: never
	}{
		"no controller":         {"HearthControllerAbsent", []string{`hearth_build_info{component="harness"} 1x60`}, 5 * time.Minute},
		"a controller goes":     {"HearthControllerAbsent", []string{`hearth_build_info{component="controller"} 1x10 stale _x60`}, -2},
		"a controller":          {"HearthControllerAbsent", []string{`hearth_build_info{component="controller"} 1x60`}, -1},
		"a restart of a minute": {"HearthControllerAbsent", []string{`hearth_build_info{component="controller"} 1x10 stale _x1 1x60`}, -1},
		"nobody leads":          {"HearthNoLeader", []string{`leader_election_master_status{name="hearth-controller",pod="a"} 0x60`, `leader_election_master_status{name="hearth-controller",pod="b"} 0x60`}, 2 * time.Minute},
		"one leads":             {"HearthNoLeader", []string{`leader_election_master_status{name="hearth-controller",pod="a"} 0x60`, `leader_election_master_status{name="hearth-controller",pod="b"} 1x60`}, -1},
		"a shard's nobody leads": {"HearthNoLeader", []string{`leader_election_master_status{name="hearth-controller-0123456789",pod="a"} 0x60`,
			`leader_election_master_status{name="hearth-controller-9876543210",pod="b"} 1x60`}, 2 * time.Minute},
		"each shard's leads": {"HearthNoLeader", []string{`leader_election_master_status{name="hearth-controller-0123456789",pod="a"} 1x60`,
			`leader_election_master_status{name="hearth-controller-0123456789",pod="b"} 0x60`, `leader_election_master_status{name="hearth-controller-9876543210",pod="c"} 1x60`}, -1},
		"a shard of nobody's":      {"HearthAgentsUnserved", []string{`hearth_agents_unserved{pod="a"} 0x5 2x60`, `hearth_agents_unserved{pod="b"} 0x5 2x60`}, 8 * time.Minute},
		"nobody's without Agents":  {"HearthAgentsUnserved", []string{`hearth_agents_unserved{pod="a"} 0x60`}, -1},
		"a replica is down":        {"HearthControllerDown", []string{`up{job="hearth-system/hearth-controller",pod="a"} 0x60`}, 10 * time.Minute},
		"waiting, nobody there":    {"HearthRunsWithoutTarget", []string{`hearth_queue_depth{` + agent + `} 3x60`, target("ready", "0x60"), target("not_ready", "1x60")}, 5 * time.Minute},
		"waiting, no target":       {"HearthRunsWithoutTarget", []string{`hearth_queue_depth{` + agent + `} 3x60`}, 5 * time.Minute},
		"waiting for a busy one":   {"HearthRunsWithoutTarget", []string{`hearth_queue_depth{` + agent + `} 3x60`, target("busy", "1x60")}, -1},
		"nothing waits":            {"HearthRunsWithoutTarget", []string{`hearth_queue_depth{` + agent + `} 0x60`, target("ready", "0x60")}, -1},
		"another Agent's target":   {"HearthRunsWithoutTarget", []string{`hearth_queue_depth{` + agent + `} 1x60`, `hearth_targets{namespace="team",agent="other",state="ready"} 1x60`}, 5 * time.Minute},
		"never an empty queue":     {"HearthQueueNeverEmpty", []string{`hearth_queue_depth{` + agent + `} 1x200`}, time.Hour},
		"an empty queue at times":  {"HearthQueueNeverEmpty", []string{`hearth_queue_depth{` + agent + `} 1x100 0 1x90`}, -1},
		"unreachable":              {"HearthTargetsUnreachable", []string{target("unreachable", "1x60")}, 5 * time.Minute},
		"unreachable for a moment": {"HearthTargetsUnreachable", []string{target("unreachable", "0x3 1x8 0x50")}, -1},
		"not ready is no matter":   {"HearthTargetsUnreachable", []string{target("not_ready", "1x60"), target("unreachable", "0x60")}, -1},
		"a recast loop":            {"HearthRecastLoop", []string{`hearth_recasts_total{` + agent + `} 0+1x60`}, 2 * time.Minute},
		"one recast":               {"HearthRecastLoop", []string{`hearth_recasts_total{` + agent + `} 0x5 1x60`}, -1},
		"the first unknown ever":   {"HearthOutcomesUnknown", []string{controller, `hearth_runs_finished_total{kind="delivered",outcome="Failed",reason="OutcomeUnknown"} _x40 1x60`}, 20 * time.Minute},
		"another unknown":          {"HearthOutcomesUnknown", []string{controller, `hearth_runs_finished_total{kind="delivered",outcome="Failed",reason="OutcomeUnknown"} 4x59 5x9`}, 30 * time.Minute},
		"a new Prometheus":         {"HearthOutcomesUnknown", []string{controller, `hearth_runs_finished_total{kind="delivered",outcome="Failed",reason="OutcomeUnknown"} 4x200`}, -1},
		"completed runs":           {"HearthOutcomesUnknown", []string{`hearth_runs_finished_total{kind="delivered",outcome="Succeeded",reason="Completed"} 0+1x60`}, -1},
		"a cancel unconfirmed":     {"HearthCancelsUnconfirmed", []string{`hearth_cancels_unconfirmed_total 0x9 1x60`}, 5 * time.Minute},
		"none unconfirmed":         {"HearthCancelsUnconfirmed", []string{`hearth_cancels_unconfirmed_total 2x60`}, -1},
		"half of the runs fail": {"HearthRunsFail", []string{`hearth_runs_finished_total{kind="delivered",outcome="Failed",reason="AgentError"} 0+1x200`,
			`hearth_runs_finished_total{kind="delivered",outcome="Succeeded",reason="Completed"} 0+1x200`}, 30*time.Minute + step},
		"one run in ten fails": {"HearthRunsFail", []string{`hearth_runs_finished_total{kind="delivered",outcome="Failed",reason="AgentError"} 0+1x200`,
			`hearth_runs_finished_total{kind="delivered",outcome="Succeeded",reason="Completed"} 0+9x200`}, -1},
		"cancelled runs":   {"HearthRunsFail", []string{`hearth_runs_finished_total{kind="delivered",outcome="Cancelled",reason="Cancelled"} 0+1x200`}, -1},
		"an agent is down": {"HearthAgentDown", []string{`hearth_agent_up{namespace="team",agent="reviewer",pod="reviewer-1"} 0x60`}, 5 * time.Minute},
		"an agent answers": {"HearthAgentDown", []string{`hearth_agent_up{namespace="team",agent="reviewer",pod="reviewer-1"} 1x60`}, -1},
		"a slow journal":   {"HearthJournalSlow", journal("2.5", "0+10x60", "1"), 10*time.Minute + step},
		"a quick journal":  {"HearthJournalSlow", journal("2.5", "0+10x60", "0.005"), -1},
		"a link panics":    {"HearthLinkPanicked", []string{`hearth_link_panics_total 0x9 1x60`}, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			at := fires(t, c.alert, scraped(t, c.lines...), 90*time.Minute)
			if c.after == -2 { // five minutes after it went
				c.after = 5*time.Minute + 11*step
			}
			if c.after < 0 && strings.HasPrefix(c.alert, "HearthControllerAbsent") {
				at = fires(t, c.alert, scraped(t, c.lines...), 25*time.Minute) // longer than that nothing was scraped
			}
			assert.Equal(t, c.after, max(at, -1))
		})
	}
}

// journal are the buckets of writes that all took as long as the bucket says.
func journal(last, values, took string) []string {
	var lines []string
	for _, le := range []string{"0.005", "0.5", "1", last, "+Inf"} {
		v := "0x60"
		if le == "+Inf" || number(le) >= number(took) {
			v = values
		}
		lines = append(lines, fmt.Sprintf(`hearth_journal_write_seconds_bucket{namespace="team",pod="reviewer-1",le=%q} %s`, le, v))
	}
	return lines
}

func number(s string) float64 {
	var f float64
	_, _ = fmt.Sscan(s, &f)
	return f
}
