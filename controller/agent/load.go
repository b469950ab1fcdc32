package agent

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

// LinkState is whether the delivery port of a standing run's Pod can be talked to.
type LinkState int

// The states. The zero value is the cautious one.
const (
	LinkOpening  LinkState = iota // not known: no Link is open, or what it was told so far is not the whole
	LinkVerified                  // the Pod proved who it is, and all that it holds was told
	LinkFailed                    // nobody there could be talked to
)

// Load is what a standing run that takes deliveries holds, and how it can be talked to.
type Load struct {
	Link LinkState
	// Reason and Message say why, where Link is LinkFailed. Reason is a waiting reason of runs, such as TargetUnreachable.
	Reason, Message string
	// Running and Queued are what its harness told last. Reserved is what was reserved for it and the harness did not tell of yet.
	Running, Queued, Reserved int32
	// Empty: it is proven that nothing is left there: nothing reserved, queued or running, and no result that is not recorded. What
	// cannot be asked is not empty.
	Empty bool
}

func (l Load) busy() int32 { return l.Running + l.Queued + l.Reserved }

// Loads knows what standing runs hold.
type Loads interface {
	// Load tells it of one standing run. A run that the caller saw cordoned in the shared cache gets no work that Load does not count.
	// An error means that it could not be told.
	Load(ctx context.Context, run *v1alpha1.AgentRun) (Load, error)
	// Changes gives the Agents of which a Load may have changed.
	Changes() source.Source
}
