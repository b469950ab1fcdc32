// Package crashpoint names the moments at which fault tests stop, kill or starve the controller and the harness. In an ordinary
// build a point is nothing: Reach is an empty function. Built with the tag faults, a process that was given a socket asks there at
// every point and waits for the word to go on (docs/faults.md).
package crashpoint

// Point is a moment between two steps that a crash may fall between.
type Point string

// Points of the controller, in the order in which a run meets them (SPEC.md, Faults).
const (
	BeforeReserve   Point = "controller/before-reserve"   // a target was chosen, nothing is written
	AfterReserve    Point = "controller/after-reserve"    // the reservation is written, nothing is sent
	AfterBytesSent  Point = "controller/after-bytes-sent" // the delivery has left and was answered, nothing of the answer is read
	AfterAccepted   Point = "controller/after-accepted"   // the harness said that it took the attempt
	AfterResult     Point = "controller/after-result"     // the result is known, nothing is written
	AfterTerminal   Point = "controller/after-terminal"   // the record is written, the harness does not know
	AfterRecorded   Point = "controller/after-recorded"   // the harness was told and has answered
	AfterCancelSeen Point = "controller/after-cancel"     // a cancel was decided, nothing is sent
)

// Controller lists the controller's points.
func Controller() []Point {
	return []Point{BeforeReserve, AfterReserve, AfterBytesSent, AfterAccepted, AfterResult, AfterTerminal, AfterRecorded, AfterCancelSeen}
}

// Points of the harness. BeforeWrite and AfterWrite are around a durable write of the journal with its name (accept, start, finish,
// void, cancel), and around a mark (recorded), which is durable with the next of them; BeforeReply and AfterReply around an answer, with the kind of its request (challenge, deliver, changes,
// attempt, cancel, recorded).
const (
	beforeWrite = "harness/before-write/"
	afterWrite  = "harness/after-write/"
	beforeReply = "harness/before-reply/"
	afterReply  = "harness/after-reply/"
)

// BeforeWrite is the moment before a durable write.
func BeforeWrite(write string) Point { return Point(beforeWrite + write) }

// AfterWrite is the moment after a durable write.
func AfterWrite(write string) Point { return Point(afterWrite + write) }

// BeforeReply is the moment at which an answer is known and nothing of it has left.
func BeforeReply(request string) Point { return Point(beforeReply + request) }

// AfterReply is the moment after an answer has left.
func AfterReply(request string) Point { return Point(afterReply + request) }
