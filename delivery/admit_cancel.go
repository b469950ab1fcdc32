package delivery

import wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"

// CancellationKind says what to do with a cancel.
type CancellationKind int

// The ends of a cancel.
const (
	CancellationRefuse CancellationKind = iota // answer Problem
	CancellationVoid                           // journal it as voided, then answer 200: it will never run
	CancellationStop                           // ask the turn to stop and answer 202: its end decides
	CancellationEnded                          // answer 200 with Known
)

// Cancellation is a harness's decision about one DELETE.
type Cancellation struct {
	Kind    CancellationKind
	Known   *Known        // with CancellationEnded and CancellationStop
	Problem *wire.Problem // with CancellationRefuse
}

// Cancel decides about a DELETE of one attempt (SPEC.md, Endpoints). An attempt never seen is voided too, so that a POST
// still under way finds a tombstone and never runs. It is idempotent: the same call again gets the same end.
func Cancel(held Held, ifNotStarted bool) Cancellation {
	if held.Same == nil {
		return Cancellation{Kind: CancellationVoid}
	}
	switch held.Same.State {
	case wire.StateAccepted:
		return Cancellation{Kind: CancellationVoid, Known: held.Same}
	case wire.StateVoided:
		return Cancellation{Kind: CancellationEnded, Known: held.Same}
	case wire.StateRunning:
		if ifNotStarted {
			return started()
		}
		return Cancellation{Kind: CancellationStop, Known: held.Same}
	case wire.StateFinished:
		if ifNotStarted {
			return started()
		}
		return Cancellation{Kind: CancellationEnded, Known: held.Same}
	default:
		return Cancellation{Problem: wire.NewProblem(wire.CodeInternal, "the attempt is in no known state")}
	}
}

func started() Cancellation {
	return Cancellation{Problem: wire.NewProblem(wire.CodeStarted, "the attempt has started")}
}

// Record decides whether an attempt may be marked as recorded (SPEC.md, Endpoints): only one that ended.
func Record(held Held) *wire.Problem {
	switch {
	case held.Same == nil:
		return wire.NewProblem(wire.CodeUnknown, "no such attempt")
	case !held.Same.State.Ended():
		return wire.NewProblem(wire.CodeAttemptActive, "the attempt is not over")
	default:
		return nil
	}
}
