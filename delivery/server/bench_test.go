package server

import (
	"net/http"
	"strconv"
	"testing"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// BenchmarkDelivery is what a harness does for one run, without network and disk: two requests (deliver, recorded) with their proofs and
// answers, three commits in memory, and a runner that ends at once.
func BenchmarkDelivery(b *testing.B) {
	h := build(b, func(c *Config) { c.Concurrency, c.Queue = 1, 1 })
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		h.once("r" + strconv.Itoa(n))
	}
}

// once delivers a run, lets it end and marks it as recorded.
func (h *house) once(run string) {
	h.t.Helper()
	if a := h.deliver(h.delivery(run, 1)); a.status != http.StatusAccepted {
		h.t.Fatal(a.status)
	}
	<-h.actor.began
	h.actor.finish(run, "x")
	h.untilState(run, wire.StateFinished)
	if a := h.send(h.call(http.MethodPost, recordOf(run), nil)); a.status != http.StatusNoContent {
		h.t.Fatal(a.status)
	}
}
