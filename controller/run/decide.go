package run

// action is the one thing that a look at a run leads to, the status apart.
type action int

const (
	actionNone action = iota
	actionMake        // make what the run needs, and then its Pod
	actionEnd         // delete what backs the run
)

// decide: a run that has ended, is to be cancelled, is being deleted or is out of time has no Pod; one that never had a Pod gets one;
// and one that had a Pod never gets another, of a Sandbox neither. The Pod of a run that ended by itself stays to be looked at, unless something in it
// still runs.
//
// Out of time the Pod is deleted before that is recorded: that a run never started can be said only once it cannot start any more.
// No memory of the intent is needed, because the deadline is in the run.
func decide(o Observed) action {
	own := o.own()
	switch {
	case o.Run.Ended() || o.stopped() || o.overdue(own) || o.losing(own):
		if o.live(own) {
			return actionEnd
		}
		return actionNone
	case admitted(o.Run) && own == nil && o.unmade() && !o.gone():
		return actionMake
	default:
		return actionNone
	}
}
