package delivery

import wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"

// RunRead is what is known of the run that an attempt in a harness names.
type RunRead struct {
	// Live: read from the API server. A cache is believed only when it says that all is well.
	Live bool
	// Failed: it could not be read (forbidden, timeout, …). That proves nothing.
	Failed bool
	// Found: there is a run of that namespace and name, and this is its UID.
	Found bool
	UID   string
	// Terminal: its record is written. Recorded: from the envelope of exactly the attempt and Pod named here.
	Terminal bool
	Recorded bool
	// Attempt and PodUID of its reservation; PodUID is empty when there is none.
	Attempt int64
	PodUID  string
}

// OrphanAction is what to do about an attempt that a harness holds.
type OrphanAction int

// The actions on attempts.
const (
	OrphanLeave        OrphanAction = iota // nothing, or not the Link's business
	OrphanReadRun                          // read the run live and ask again
	OrphanCancel                           // DELETE: nobody wants it any more
	OrphanMarkRecorded                     // the record is written, or never will be: the payload may go
	OrphanLateResult                       // as OrphanMarkRecorded, and say in an Event that a result came too late
)

// Orphan decides about one attempt that the harness of Pod podUID in namespace listed (SPEC.md, Lifecycle, run deleted;
// R42, fault rows 31, 32, 53). It is level-triggered: ask at every change and at every look.
func Orphan(a wire.Attempt, namespace, podUID string, run RunRead) OrphanAction {
	wanted := run.Found && run.UID == a.Run.UID && !run.Terminal && run.Attempt == a.Attempt && run.PodUID == podUID
	switch {
	case a.Run.Namespace != namespace, a.State == wire.StateVoided, a.Recorded:
		return OrphanLeave
	case run.Failed: // a refusal is not an absence
		return OrphanLeave
	case wanted:
		return OrphanLeave
	case !run.Live:
		return OrphanReadRun
	case !a.State.Ended() && a.CancelRequested:
		return OrphanLeave
	case !a.State.Ended():
		return OrphanCancel
	case run.Found && run.UID == a.Run.UID && run.Terminal && !run.Recorded:
		return OrphanLateResult
	default:
		return OrphanMarkRecorded
	}
}
