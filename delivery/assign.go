package delivery

import "time"

// Assign reserves targets for the waiting runs of one Agent, oldest first (SPEC.md, Lifecycle, Assign). A target of the run's
// own generation is preferred, then one that is free at once, then the least loaded, ties by name. Runs that do not wait for a
// target (reserved, terminal, cancelled, not admitted, past their deadline) are left to Decide.
func Assign(now time.Time, runs []Run, pool Pool) Assignments { panic("not written") }

// ReserveStatus is the status that a reserving update writes.
func ReserveStatus(run Run, r Reservation) Status { panic("not written") }

// WaitStatus is the status of a run that was refused a target; nil when it says so already, so that waiting costs one write
// a reason.
func WaitStatus(run Run, r Refusal) *Status { panic("not written") }
