// Package kontext is the harness's side of an older contract, kontext.dev/delivery/v1alpha1 (SPEC.md, The older contract): one
// synchronous call on a plain-HTTP listener of its own, answered with a signed result of at most 4,096 bytes. Deciding, queueing,
// running and the journal are delivery/server's; the contract's types, its listener and who waits for what are here.
package kontext

import "time"

// Versions and places of the older contract.
const (
	// APIVersion is the apiVersion of every request, and the contract that its attempts are journalled under.
	APIVersion = "kontext.dev/delivery/v1alpha1"
	// ResultAPIVersion is the apiVersion of every result.
	ResultAPIVersion = "kontext.dev/result/v1alpha1"
	// Path is POSTed to deliver a run; the answer is its result.
	Path = "/kontext.dev/v1alpha1/agent-runs"
	// HeaderChallenge carries the caller's nonce, HeaderSignature the harness's MAC over it, the run and the body of the answer.
	HeaderChallenge = "Kontext-Delivery-Challenge"
	HeaderSignature = "Kontext-Delivery-Signature"
	// TokenVariable is the variable of the environment that holds the key of the signature.
	TokenVariable = "KONTEXT_DELIVERY_TOKEN" //nolint:gosec // a name
	// DefaultPort is the listener's. That controller has no port of its own: it dials the Agent's runtime.delivery.port, in its
	// own examples this one.
	DefaultPort = 8080
)

// Bounds of the older contract and its listener (SPEC.md, Appendix). The body's bound is the wire's.
const (
	// MaxResultBytes bounds an encoded result; that controller reads no more.
	MaxResultBytes = 4096
	// MinTokenBytes: a shorter key is refused at the start.
	MinTokenBytes = 32
	// MaxChallengeBytes bounds the caller's nonce.
	MaxChallengeBytes = 256
	// MaxConnections bounds open connections.
	MaxConnections = 128
	// MaxHeld bounds the callers that wait for a turn; one more is hung up on and comes again.
	MaxHeld = 64
	// MaxHeaderBytes bounds a request's line and headers; net/http adds 4 KiB.
	MaxHeaderBytes = 4 << 10
	// MaxStrangersBytes bounds the bodies that are being read, of all connections together; who holds the most is thrown out.
	MaxStrangersBytes = 8 << 20

	readHeaderTimeout = 5 * time.Second
	readTimeout       = 15 * time.Second // header and body; lifted once the body is there
	writeTimeout      = 30 * time.Second // of an answer, however long the caller had to wait for it
	idleTimeout       = 90 * time.Second
	closeTimeout      = 2 * time.Second
)
