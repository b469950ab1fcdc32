// Package rig runs Hearth in pieces that can be broken: real controllers and harnesses as processes of their own, a real API server,
// and between them what a test cuts, stalls, stops or kills. A World is one namespace of it:
//
//	func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }
//
//	w := rig.New(t, rig.Options{})
//	c := w.Controller()
//	w.Agent("reviewer")
//	pods := w.Ready("reviewer", 1)
//	hold := w.Hold(crashpoint.AfterReserve)
//	run := w.Run("reviewer", "say: hello")
//	hold.Wait().Kill()
//	w.Controller()
//	w.Await(run, "Succeeded")
//
// When the test ends, the World checks the invariants over everything that happened in it.
package rig

import "testing"

// Slow marks a test that takes longer than a change may wait for; with -short it is skipped.
func Slow(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("slow: `make faults` runs it")
	}
}
