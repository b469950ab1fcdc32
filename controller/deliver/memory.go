package deliver

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/delivery"
	"github.com/hearthdev/hearth/delivery/client"
)

// note is what this process remembers of one run beside its Link's memory. Losing it is safe: everything becomes cautious.
type note struct {
	uid         types.UID
	attempt     int64
	podUID      string
	mine        bool      // our own update made this reservation
	handed      bool      // a send of it was handed to a Link
	sending     bool      // whoever reserved it has not yet sent it, and may still
	accepted    bool      // this process saw that it was accepted, and asks the target only since then whether it is there
	since       time.Time // when this process first saw the reservation
	cancelSince time.Time
	podRead     delivery.PodRead
	podReadAt   time.Time
	last        client.Attempt // the Link's word, for when the Link is closed
}

// memory holds the notes by run, where the Links have seen attempts of runs, and how targets refused.
type memory struct {
	mu    sync.Mutex
	notes map[types.NamespacedName]*note
	// held are the Pod UIDs on which attempts of runs of that name were seen, each with the run whose late result there was told.
	held    map[types.NamespacedName]map[string]types.UID
	targets map[string]*refusals
}

// refusals is how often in a row a target did not take what it was given.
type refusals struct {
	failures int
	until    time.Time
}

func newMemory() *memory {
	return &memory{notes: map[types.NamespacedName]*note{}, held: map[types.NamespacedName]map[string]types.UID{}, targets: map[string]*refusals{}}
}

// about opens the note of a run's reservation and changes it. A note about an earlier reservation is replaced; one about a later
// stays, because then the caller's view of the run is old.
func (m *memory) about(run *hearthv1.AgentRun, r delivery.Reservation, now time.Time, change func(*note)) note {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := kube.ObjectKeyFromObject(run)
	n := m.notes[key]
	if n == nil || n.uid != run.UID || n.attempt != r.Attempt || n.podUID != r.PodUID {
		fresh := &note{uid: run.UID, attempt: r.Attempt, podUID: r.PodUID, since: now}
		old := n != nil && n.uid == run.UID && n.attempt > r.Attempt
		if n != nil && n.uid == run.UID {
			fresh.cancelSince = n.cancelSince
		}
		n = fresh
		if !old {
			m.notes[key] = n
		}
	}
	if change != nil {
		change(n)
	}
	return *n
}

// forget drops the note of a run, and gives the UID of the Pod that it was about; "" if there was none.
func (m *memory) forget(run types.NamespacedName) (podUID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := m.notes[run]; n != nil {
		podUID = n.podUID
	}
	delete(m.notes, run)
	return podUID
}

// saw notes that a Pod holds an attempt of a run of that name.
func (m *memory) saw(run types.NamespacedName, podUID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held[run] == nil {
		m.held[run] = map[string]types.UID{}
	}
	m.held[run][podUID] = m.held[run][podUID]
}

// late tells, once, that a Pod holds a result of a run that came after its record.
func (m *memory) late(run types.NamespacedName, podUID string, uid types.UID) (first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held[run] == nil || m.held[run][podUID] == uid {
		return false
	}
	m.held[run][podUID] = uid
	return true
}

// whereabouts lists the Pods that hold attempts of runs of that name.
func (m *memory) whereabouts(run types.NamespacedName) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]string, 0, len(m.held[run]))
	for podUID := range m.held[run] {
		out = append(out, podUID)
	}
	return out
}

func (m *memory) left(run types.NamespacedName, podUID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.held[run], podUID)
	if len(m.held[run]) == 0 {
		delete(m.held, run)
	}
}

// refusedBy counts a refusal, after which a target gets nothing for a while: at least until the time it asked for itself.
func (m *memory) refusedBy(podUID string, now, asked time.Time, jitter float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.targets[podUID]
	if r == nil {
		r = &refusals{}
		m.targets[podUID] = r
	}
	r.failures++
	r.until = now.Add(delivery.Backoff(r.failures, jitter))
	if asked.After(r.until) {
		r.until = asked
	}
}

// took ends a target's backoff: it accepted something, or is gone.
func (m *memory) took(podUID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.targets, podUID)
}

func (m *memory) backoffUntil(podUID string) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.targets[podUID]; r != nil {
		return r.until
	}
	return time.Time{}
}
