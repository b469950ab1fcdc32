// Package attach lets any number of clients of the Agent Client Protocol watch and steer the sessions of the standing agents: the
// harness owns the one connection to each agent, and clients come and go (R50–R54; SPEC.md, People at the agent).
package attach

// Access is what a client's key lets it do; a higher one includes the lower (R53).
type Access int

// The accesses.
const (
	None  Access = iota
	View         // watch
	Steer        // watch, prompt, cancel and answer permission questions
)

// Message is one JSON-RPC message on its way to a client.
type Message struct {
	// Session is the session it belongs to; "" for what belongs to the connection. A transport with one stream ignores it.
	Session string
	// Data is the message without a newline. Many clients share it: it must not be changed.
	Data []byte
}
