package node

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/pprof"
	"runtime"
)

// PodCounts are one Pod's; Requests are those that have ended since the last Reset, Connections those that are open.
type PodCounts struct {
	Name        string           `json:"name"` // namespace/name
	UID         string           `json:"uid"`
	Agent       string           `json:"agent"`
	Address     string           `json:"address"`
	Boots       int64            `json:"boots"`
	Requests    map[string]int64 `json:"requests"`
	Connections int64            `json:"connections"`
}

// names is a body that names Pods or runs by their UIDs.
type names struct {
	Names []string `json:"names"`
}

// maxBody bounds a command.
const maxBody = 4 << 20

// control is what the measuring process asks and commands, on loopback.
func (n *node) control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /counts", func(w http.ResponseWriter, _ *http.Request) {
		counts, _ := n.book.now()
		answer(w, counts)
	})
	mux.HandleFunc("GET /times", func(w http.ResponseWriter, _ *http.Request) { answer(w, n.book.all()) })
	mux.HandleFunc("GET /pods", func(w http.ResponseWriter, _ *http.Request) {
		pods := []PodCounts{}
		for _, p := range n.all() {
			pods = append(pods, p.counts())
		}
		answer(w, pods)
	})
	mux.HandleFunc("POST /await", func(w http.ResponseWriter, r *http.Request) {
		var wanted Counts
		if !decode(w, r, &wanted) {
			return
		}
		counts, err := n.await(r.Context(), wanted)
		if err != nil {
			http.Error(w, err.Error(), http.StatusGatewayTimeout)
			return
		}
		answer(w, counts)
	})
	mux.HandleFunc("POST /reset", func(w http.ResponseWriter, _ *http.Request) {
		n.book.reset()
		for _, p := range n.all() {
			p.requests.reset()
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("POST /release", func(w http.ResponseWriter, r *http.Request) {
		var runs names
		if decode(w, r, &runs) {
			n.released.open(runs.Names)
			w.WriteHeader(http.StatusNoContent)
		}
	})
	mux.HandleFunc("POST /lists/hold", func(w http.ResponseWriter, _ *http.Request) {
		n.lists.hold()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("POST /lists/release", func(w http.ResponseWriter, _ *http.Request) {
		n.lists.release()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("POST /restart", func(w http.ResponseWriter, r *http.Request) {
		var pods names
		if !decode(w, r, &pods) {
			return
		}
		if err := n.restart(context.WithoutCancel(r.Context()), pods.Names); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /goroutines", func(w http.ResponseWriter, _ *http.Request) { answer(w, runtime.NumGoroutine()) })
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	return mux
}

// await waits until the counts have reached those that are wanted: exactly so many Pods where any are wanted, of the rest at least.
func (n *node) await(ctx context.Context, wanted Counts) (Counts, error) {
	for {
		c, changed := n.book.now()
		switch {
		case len(c.Failures) > 0:
			return c, fmt.Errorf("the node failed: %s", c.Failures[0])
		case (wanted.Pods == 0 || c.Pods == wanted.Pods) && c.Accepted >= wanted.Accepted && c.Begun >= wanted.Begun && c.Ended >= wanted.Ended && c.Recorded >= wanted.Recorded:
			return c, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return c, fmt.Errorf("wait for %d Pods, %d accepted, %d begun, %d ended, %d recorded: there are %d, %d, %d, %d, %d: %w",
				wanted.Pods, wanted.Accepted, wanted.Begun, wanted.Ended, wanted.Recorded, c.Pods, c.Accepted, c.Begun, c.Ended, c.Recorded, ctx.Err())
		}
	}
}

func (p *pod) counts() PodCounts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return PodCounts{Name: p.name, UID: p.identity.PodUID, Agent: p.agentOf, Address: p.address, Boots: p.boots.Load(), Requests: p.requests.copied(),
		Connections: p.connections.Load()}
}

func decode(w http.ResponseWriter, r *http.Request, into any) bool {
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(into); err != nil {
		http.Error(w, "expected JSON: "+err.Error(), http.StatusBadRequest)
		return false
	}
	return true
}

func answer(w http.ResponseWriter, what any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(what) // who asked may have left
}
