package server

import (
	"hash/maphash"
	"net/http"
	"sync"
	"time"

	"github.com/hearthdev/hearth/challenge"
	"github.com/hearthdev/hearth/internal/gate"
)

const (
	// maxProofs bounds the proofs that are remembered in a boot, on plain HTTP.
	maxProofs = 1 << 16
	// challengeTime is how long a challenge alone keeps a connection, on plain HTTP.
	challengeTime = 30 * time.Second
)

// proofs remembers the challenges of genuine requests. Its keys are chosen by whoever holds the secret, not by strangers.
type proofs struct {
	seed maphash.Seed
	mu   sync.Mutex
	seen map[uint64]struct{}
}

// first tells whether a proof was not seen before. Beyond the bound none counts as first: its connection stays one that makes room.
func (p *proofs) first(nonce string) bool {
	sum := maphash.String(p.seed, nonce)
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, before := p.seen[sum]; before || len(p.seen) >= maxProofs {
		return false
	}
	p.seen[sum] = struct{}{}
	return true
}

// proven has the connection of a genuine request kept when connections are scarce. Under TLS the request is its sender's own. On
// plain HTTP whoever reads the network may send it again, so only the first one of its kind counts, and a challenge, which is as
// good in every boot, for a time.
func (s *Server) proven(r *http.Request, asked challenge.Request) {
	switch {
	case s.tls != nil:
		gate.Proven(r.Context())
	case asked.Boot != "" && asked.Boot != s.boot || !s.proofs.first(asked.Challenge):
	case asked.Boot == "":
		gate.ProvenFor(r.Context(), challengeTime)
	default:
		gate.Proven(r.Context())
	}
}
