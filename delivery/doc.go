// Package delivery decides. It holds both halves of warm delivery as pure functions over values: no I/O, no goroutine, no
// clock, no Kubernetes. A caller observes, asks here, and acts (SPEC.md, Lifecycle).
//
// The controller's half:
//
//	Assign   which waiting run is reserved for which target, and why the others wait
//	Decide   the one next action for a run, and the status it should show
//	Orphan   what becomes of an attempt that a harness holds
//	Classify what a reply to a delivery proves
//
// The harness's half: Admit, Cancel, Record.
//
// Three arbiters, none of them memory: the API server's resource version decides the reservation, the harness's journal decides
// the execution, the terminal status is the record. Whatever this package is told from memory it treats as a hint that may be
// missing; every zero value of Observed is the cautious one.
package delivery
