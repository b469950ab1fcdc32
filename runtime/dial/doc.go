// Package dial reaches an agent: by the stdin and stdout of its process, or by WebSocket at an endpoint of this host, whose
// server the harness starts or finds beside itself in the Pod (SPEC.md, Agents by endpoint). Whichever it is, what comes of it is
// a Line: two streams of lines, a reason when they end, and an end.
package dial
