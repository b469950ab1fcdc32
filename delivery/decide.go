package delivery

import "time"

// Decide tells the one next action for a run and the status it should show (SPEC.md, Lifecycle). It is total: any run and
// anything observed, or not, lead to an action, and every living run has a deadline (R41).
func Decide(now time.Time, run Run, obs Observed) Decision { panic("not written") }

// StartWithin is the startWithinSeconds to send along: what is left of the starting deadline, at least 1.
func StartWithin(now time.Time, run Run) int64 { panic("not written") }
