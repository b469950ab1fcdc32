// Package model holds no code, only a test: a simulated world in which everything happens in any order. An API server with resource
// versions, two controllers with caches that lag, harnesses that decide as the real one does, a kubelet, a network that loses, delays
// and repeats. What is decided is decided by the product: delivery.Decide, Assign, Orphan, Admit, Cancel and Record, and the whole
// reconciler of controller/agent. The world carries it out, counts every side effect, and holds each step against the invariants
// (SPEC.md, Faults). Sequences are drawn by rapid, so a failure shrinks to the few steps that matter and is printed as their names.
package model
