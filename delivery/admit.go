package delivery

import (
	"fmt"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// Known is one attempt that a harness's journal holds.
type Known struct {
	wire.Attempt
	// Forgotten: it ended, was recorded, and its envelope was dropped. Only the tombstone is left.
	Forgotten bool
}

// Held is what a harness holds at the moment it decides: about one run, and about itself.
type Held struct {
	// Same is the attempt asked about; nil when the journal never saw it.
	Same *Known
	// Highest is the highest attempt number seen of the run; 0 when the run is unknown.
	Highest int64
	// Active is the number of the run's attempt that is accepted or running; 0 when none is.
	Active int64

	Draining bool
	Agent    wire.AgentState
	Capacity wire.Capacity
}

// AdmissionKind says what to do with a delivery.
type AdmissionKind int

// The three ends of an admission.
const (
	AdmissionRefuse    AdmissionKind = iota // answer Problem; nothing is journalled
	AdmissionAccept                         // journal it, then answer 202
	AdmissionDuplicate                      // answer 200 with Known
)

// Admission is a harness's decision about one delivery.
type Admission struct {
	Kind    AdmissionKind
	Known   *Known        // with AdmissionDuplicate
	Problem *wire.Problem // with AdmissionRefuse
}

// Admit decides about a delivery that was authenticated and decoded (R24; SPEC.md, Endpoints, order of checks): target,
// journal, known attempt, draining, agent, capacity. A known attempt comes before everything that is temporary, so that a
// caller whose first answer was lost learns the truth from a busy or draining harness too. Disk space is the journal's.
func Admit(me wire.Identity, journal string, r wire.DeliveryRequest, held Held) Admission {
	if p := Misdirected(me, r.Target); p != nil {
		return refuse(p)
	}
	if r.Journal != journal {
		p := wire.NewProblem(wire.CodeJournalChanged, "the journal is another one than the caller was told of: challenge again, then look")
		p.Journal = journal
		return refuse(p)
	}
	if held.Same != nil {
		return again(r, held.Same)
	}
	if r.Attempt < held.Highest {
		return refuse(wire.NewProblem(wire.CodeSuperseded, fmt.Sprintf("attempt %d of this run was seen already", held.Highest)))
	}
	if held.Active != 0 {
		return refuse(wire.NewProblem(wire.CodeAttemptActive, fmt.Sprintf("attempt %d of this run is not over", held.Active)))
	}
	return admitNew(held)
}

// again answers for an attempt that the journal knows. A voided one is gone whatever the content: it must never run.
func again(r wire.DeliveryRequest, known *Known) Admission {
	switch {
	case known.State == wire.StateVoided:
		return refuse(wire.NewProblem(wire.CodeVoided, "the attempt was voided before it started"))
	case known.Digest != wire.Digest(r.Run.UID, r.Attempt, r.Goal):
		return refuse(wire.NewProblem(wire.CodeDigestMismatch, "the attempt is known with another content"))
	case known.Forgotten:
		return refuse(wire.NewProblem(wire.CodeForgotten, "the attempt ended, was recorded, and its result was dropped"))
	default:
		return Admission{Kind: AdmissionDuplicate, Known: known}
	}
}

func admitNew(held Held) Admission {
	switch {
	case held.Draining:
		return refuse(wire.NewProblem(wire.CodeDraining, "the harness takes no new work"))
	case held.Agent != wire.AgentReady:
		return refuse(wire.NewProblem(wire.CodeAgentUnavailable, fmt.Sprintf("the agent is %s", held.Agent)))
	case held.Capacity.Room() == 0:
		p := wire.NewProblem(wire.CodeBusy, "at capacity")
		capacity := held.Capacity
		p.Capacity = &capacity
		return refuse(p)
	default:
		return Admission{Kind: AdmissionAccept}
	}
}

// Misdirected refuses a request whose target is another Pod, or an earlier Pod of the same name (R25; SPEC.md, Identity).
func Misdirected(me wire.Identity, target wire.Target) *wire.Problem {
	if target.Name == me.PodName && target.UID == me.PodUID {
		return nil
	}
	return wire.NewProblem(wire.CodeMisdirected, "the target is another Pod")
}

func refuse(p *wire.Problem) Admission { return Admission{Kind: AdmissionRefuse, Problem: p} }
