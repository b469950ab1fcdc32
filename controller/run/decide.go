package run

// action is the one thing that a look at a standing run leads to, the status apart.
type action int

const (
	actionNone action = iota
	actionMake        // make the Secret and the Pod
	actionEnd         // delete what backs the run
)

// decide: a run that has ended, is to be cancelled or is being deleted has no Pod; one that never had a Pod gets one; and one
// that had a Pod never gets another, of a Sandbox neither.
func decide(o Observed) action {
	own := o.own()
	switch {
	case o.Run.Status.CompletionTime != nil || o.Run.Spec.Cancel || o.Run.DeletionTimestamp != nil || o.losing(own):
		if o.live(own) {
			return actionEnd
		}
		return actionNone
	case admitted(o.Run) && own == nil && o.unmade():
		return actionMake
	default:
		return actionNone
	}
}
