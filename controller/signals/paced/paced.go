// Package paced has the controller's Events written one after the other, so that what carries runs does not wait for them (SPEC.md, Signals).
package paced

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/reference"

	"github.com/hearthdev/hearth/controller/metrics"
	"github.com/hearthdev/hearth/controller/signals"
)

const (
	// eventRest is how long an Event waits: what a run's end says as well is not written for one that ends within it.
	eventRest = time.Second
	// eventGap is the time between two Events. Each is a write like those that carry runs, and in a burst it would take their place.
	eventGap = 50 * time.Millisecond
	// maxEvents bounds those that wait; beyond it the oldest Normal one is dropped, and where there is none the oldest.
	maxEvents = 2048
)

// Recorders have Events written one after the other, a moment after what they tell of, so that a burst of runs does not wait for them. What
// waits when the process ends is written then, as far as there is time, and what is told after that at once.
type Recorders struct {
	scheme *runtime.Scheme
	now    func() time.Time
	news   chan struct{}

	mu    sync.Mutex
	queue queue
	over  bool // Run ended; reconcilers end what they had begun beside it
}

// told is an Event that waits. It holds references, because a run may be large.
type told struct {
	to                         events.EventRecorder
	regarding, related         *corev1.ObjectReference
	kind, reason, action, note string
	due                        time.Time
}

// New makes one without Events; Run has them written.
func New(scheme *runtime.Scheme, now func() time.Time) *Recorders {
	return &Recorders{scheme: scheme, now: now, news: make(chan struct{}, 1)}
}

// To gives a recorder whose Events wait for their turn and are recorded by the other one then.
func (p *Recorders) To(other events.EventRecorder) events.EventRecorder {
	return recorder{p, other}
}

type recorder struct {
	all *Recorders
	to  events.EventRecorder
}

// Eventf implements events.EventRecorder.
func (r recorder) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	t := told{to: r.to, kind: kind, reason: reason, action: action, note: fmt.Sprintf(note, args...), due: r.all.now().Add(eventRest)}
	var err error
	if t.regarding, err = reference.GetReference(r.all.scheme, regarding); err != nil {
		return // the recorder would say nothing either of what has no name
	}
	if related != nil {
		if t.related, err = reference.GetReference(r.all.scheme, related); err != nil {
			t.related = nil
		}
	}
	r.all.add(t)
}

func (p *Recorders) add(t told) {
	p.mu.Lock()
	if p.over {
		p.mu.Unlock()
		t.record()
		return
	}
	dropped := p.queue.add(t)
	p.mu.Unlock()
	if dropped {
		metrics.EventDropped()
	}
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// Run writes Events until the context ends, then the rest.
func (p *Recorders) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			p.rest()
			return nil
		case <-timer.C:
		case <-p.news:
		}
		p.mu.Lock()
		t, wait := p.queue.next(p.now())
		p.mu.Unlock()
		if t != nil {
			t.record()
		}
		if wait > 0 {
			timer.Reset(wait)
		}
	}
}

func (p *Recorders) rest() {
	p.mu.Lock()
	left := p.queue.waiting
	p.queue.waiting, p.over = nil, true
	p.mu.Unlock()
	for _, t := range left {
		t.record()
	}
}

func (t told) record() {
	var related runtime.Object
	if t.related != nil {
		related = t.related
	}
	t.to.Eventf(t.regarding, related, t.kind, t.reason, t.action, "%s", t.note)
}

// queue is what waits, oldest first, and when the next one may go.
type queue struct {
	waiting []told
	free    time.Time
}

// add puts an Event at the end. The end of a run takes the place of what else waits to be told of it, but for warnings: it has the attempt
// and the Pod as well. Dropped: there was no room for all.
func (q *queue) add(t told) (dropped bool) {
	normal := func(o told) bool { return o.kind == corev1.EventTypeNormal }
	if t.action == signals.ActionEnd {
		q.waiting = slices.DeleteFunc(q.waiting, func(o told) bool { return o.regarding.UID == t.regarding.UID && normal(o) })
	}
	if len(q.waiting) >= maxEvents {
		oldest := max(0, slices.IndexFunc(q.waiting, normal))
		q.waiting = slices.Delete(q.waiting, oldest, oldest+1)
		dropped = true
	}
	q.waiting = append(q.waiting, t)
	return dropped
}

// next takes the Event that may go now, if one may, and tells when to ask again; 0 is when there is another one.
func (q *queue) next(now time.Time) (*told, time.Duration) {
	if len(q.waiting) == 0 {
		return nil, 0
	}
	due := q.waiting[0].due
	if q.free.After(due) {
		due = q.free
	}
	if wait := due.Sub(now); wait > 0 {
		return nil, wait
	}
	t := q.waiting[0]
	q.waiting[0] = told{}
	q.waiting = q.waiting[1:]
	q.free = now.Add(eventGap)
	return &t, eventGap
}
