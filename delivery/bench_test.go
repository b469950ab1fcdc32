package delivery

import (
	"testing"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// BenchmarkDecide is what the controller reckons at each change of a delivered run: here, at its end.
func BenchmarkDecide(b *testing.B) {
	run, obs := scene(b)
	obs.sees(told(wire.StateFinished, envelope(wire.OutcomeSucceeded, wire.ReasonCompleted)))
	b.ReportAllocs()
	for b.Loop() {
		if d := Decide(later, run, obs); d.Action != ActionRecord {
			b.Fatal(d.Action)
		}
	}
}
