package main

import (
	"time"

	"github.com/hearthdev/hearth/test/bench/figures"
)

// id is the figure that all of these belong to.
const id = "P4"

// trip is when what happened to one goal; of a Pod that is not Hearth's only the two times that count are known. The node's clock and
// this program's are compared: on hack/cluster they are the same one.
type trip struct{ sent, reserved, accepted, started, asked, recorded time.Time }

// round is what one round saw: first of a standing agent that has just started, and what each warm run cost, in milliseconds by program.
type round struct {
	bare, own, first, warm []trip
	costs                  map[string]float64
}

// leg is a part of a trip.
type leg func(trip) time.Duration

func whole(t trip) time.Duration { return t.asked.Sub(t.sent) }

// report makes the figures: each the median of the rounds' medians.
func report(rounds []round) figures.Result {
	warm := func(r round) []trip { return r.warm }
	bare, _ := median(rounds, func(r round) []trip { return r.bare }, whole)
	own, _ := median(rounds, func(r round) []trip { return r.own }, whole)
	one := func(what string, trips func(round) []trip, l leg) figures.Figure {
		value, all := median(rounds, trips, l)
		return figures.New(id, what, "ms", value).Of(all)
	}
	return figures.Result{Machine: figures.Machine("."), Figures: []figures.Figure{
		one("warm: created → prompt at the model; limit: a Pod of the same image", warm, whole).Against(bare).Aims("ratio ≤ 0.04").Costs(costs(rounds)),
		one("the same; limit: an AgentRun that gets its own Pod", warm, whole).Against(own),
		one("created → reserved", warm, func(t trip) time.Duration { return t.reserved.Sub(t.sent) }),
		one("reserved → accepted", warm, func(t trip) time.Duration { return t.accepted.Sub(t.reserved) }),
		one("accepted → started", warm, func(t trip) time.Duration { return t.started.Sub(t.accepted) }),
		one("started → prompt at the model", warm, func(t trip) time.Duration { return t.asked.Sub(t.started) }),
		one("prompt at the model → recorded", warm, func(t trip) time.Duration { return t.recorded.Sub(t.asked) }),
		one("the first goal of a goose that has just started: created → prompt at the model", func(r round) []trip { return r.first }, whole),
	}}
}

// median is that of the rounds' medians, which it returns too, in milliseconds.
func median(rounds []round, trips func(round) []trip, l leg) (float64, []float64) {
	var all []float64
	for _, r := range rounds {
		var took []time.Duration
		for _, t := range trips(r) {
			took = append(took, l(t))
		}
		all = append(all, figures.Median(figures.Millis(took)))
	}
	return figures.Median(all), all
}

// costs are the medians of the rounds', by program.
func costs(rounds []round) map[string]float64 {
	all := map[string][]float64{}
	for _, r := range rounds {
		for name, millis := range r.costs {
			all[name] = append(all[name], millis)
		}
	}
	medians := map[string]float64{}
	for name, millis := range all {
		medians[name] = figures.Median(millis)
	}
	return medians
}
