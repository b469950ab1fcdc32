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

// note tells whether a proof was not seen before, and whether it was. Beyond the bound it is neither.
func (p *proofs) note(nonce string) (first, again bool) {
	sum := maphash.String(p.seed, nonce)
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, again = p.seen[sum]; again || len(p.seen) >= maxProofs {
		return false, again
	}
	p.seen[sum] = struct{}{}
	return true, false
}

// proven has the connection of a genuine request kept when connections are scarce. Under TLS the request is its sender's own. On
// plain HTTP whoever reads the network may send it again, so only the first one of its kind counts, and a challenge, which is as
// good in every boot, for a time. What is sent again is answered at once, or it would take the places of those that wait.
func (s *Server) proven(r *http.Request, asked challenge.Request) {
	if s.tls != nil {
		gate.Proven(r.Context())
		return
	}
	if asked.Boot != "" && asked.Boot != s.boot {
		return
	}
	first, again := s.proofs.note(asked.Challenge)
	switch {
	case again:
		r.Header.Del("Prefer")
	case first && asked.Boot == "":
		gate.ProvenFor(r.Context(), challengeTime)
	case first:
		gate.Proven(r.Context())
	}
}
