package run

import (
	"github.com/hearthdev/hearth/controller/pod"
)

// action is the one thing that a look at a standing run leads to, the status apart.
type action int

const (
	actionNone action = iota
	actionMake        // make the Secret and the Pod
	actionEnd         // delete the run's own Pod
)

// decide: a run that has ended, is to be cancelled or is being deleted has no Pod; one that never had a Pod gets one; and one
// that had a Pod never gets another.
func decide(o Observed) action {
	own := o.own()
	live := own != nil && own.DeletionTimestamp == nil && !pod.Ended(own)
	switch {
	case o.Run.Status.CompletionTime != nil || o.Run.Spec.Cancel || o.Run.DeletionTimestamp != nil:
		if live {
			return actionEnd
		}
		return actionNone
	case admitted(o.Run) && own == nil && o.Run.Status.PodUID == "":
		return actionMake
	default:
		return actionNone
	}
}
