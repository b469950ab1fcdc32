package llm

import (
	"fmt"
	"net/http"
	"sync"
)

// maxTallies bounds what strangers can make the server remember.
const maxTallies = 4096

// tallies count by name what was posted: a side effect that outlives the Pod which had it.
type tallies struct {
	mu     sync.Mutex
	byName map[string]int
}

func (t *tallies) add(w http.ResponseWriter, r *http.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	name := r.PathValue("name")
	if _, known := t.byName[name]; !known && len(t.byName) == maxTallies {
		writeError(w, http.StatusInsufficientStorage, "tally: too many tallies")
		return
	}
	if t.byName == nil {
		t.byName = map[string]int{}
	}
	t.byName[name]++
	w.WriteHeader(http.StatusNoContent)
}

func (t *tallies) get(w http.ResponseWriter, r *http.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = fmt.Fprint(w, t.byName[r.PathValue("name")])
}
