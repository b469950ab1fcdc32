// Package netfault is a TCP proxy that spoils the network between two processes: it refuses, stalls, loses answers, delays and
// closes by halves, and heals. Tests put one between a controller and each Pod (docs/faults.md).
package netfault

import "time"

// Fault is what a proxy does to its connections. The zero value passes everything.
type Fault struct {
	kind  kind
	delay time.Duration
}

type kind int

const (
	pass kind = iota
	refuse
	blackhole
	dropReplies
	delayed
	halfClose
	halfOpen
)

// Faults without a parameter.
var (
	// Refuse resets what is connected and refuses what dials: the host is there and nobody listens.
	Refuse = Fault{kind: refuse}
	// Blackhole passes nothing in either direction and closes nothing. Who dials is connected and hears nothing. What was sent
	// meanwhile arrives after Heal, as retransmitted packets do, also from those who have hung up.
	Blackhole = Fault{kind: blackhole}
	// DropReplies passes what goes to the server; what comes back is lost. Connections that lost something are reset at Heal.
	DropReplies = Fault{kind: dropReplies}
	// HalfClose ends the direction from the server to the client; the other one goes on.
	HalfClose = Fault{kind: halfClose}
	// HalfOpen resets the server's side and does not tell the client: what it sends is swallowed. At Heal it is reset.
	HalfOpen = Fault{kind: halfOpen}
)

// Delay passes everything, each piece d later in either direction.
func Delay(d time.Duration) Fault { return Fault{kind: delayed, delay: d} }
