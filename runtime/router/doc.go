// Package router keeps one connection to one agent: raw JSON-RPC 2.0 in lines over its stdin and stdout (SPEC.md, Harness).
//
// Frames stay raw JSON: what is not understood is neither changed nor lost on the way, and an agent's own request ids come back
// to it byte for byte. One goroutine reads and calls the sinks of the sessions, in the order of the agent's lines, so that what
// came before an answer is delivered before it; sinks must not block. One goroutine writes from a bounded queue, so that an
// agent that does not read cannot stop the reader.
package router
