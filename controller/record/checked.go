package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/hearthdev/hearth/controller/signals"
)

const (
	// freeWrites is how many writes that lose fields an object may have in a row: more than a run needs in its life.
	freeWrites = 16
	// heldBack is the time between those that follow. What is stored never becomes what is wanted, so without it a field that others
	// follow from (when the run ended, say) would be written for ever.
	heldBack = 30 * time.Second
	// maxObjects bounds of how many objects that is counted; beyond it, it is counted anew.
	maxObjects = 16 << 10
	// maxTold bounds how many fields are remembered to have been told of.
	maxTold = 256
	// maxNote keeps an event's note within the API's bound.
	maxNote = 1000
)

// Held says that a status is not written for now: the writes before lost fields, and this one would, too.
type Held struct{ For time.Duration }

func (h *Held) Error() string {
	return fmt.Sprintf("expected a CRD of the controller's version: earlier writes of this status lost fields, so the next is in %s", h.For.Round(time.Second))
}

// HeldFor gives how long a status is not written, if that is the error.
func HeldFor(err error) (time.Duration, bool) {
	if h := (*Held)(nil); errors.As(err, &h) {
		return h.For, true
	}
	return 0, false
}

// Checked is a client whose status updates show what the API server stored. Where its CRD is older than the controller it drops fields
// and says that all is well; Checked says which, once a process and field, in the log and by an event of the object (R12), and keeps
// those who want the field from writing without end.
type Checked struct {
	client.Client
	log *slog.Logger
	now func() time.Time

	mu     sync.Mutex
	events events.EventRecorder
	told   map[string]bool
	budget map[types.UID]*rate.Limiter
}

// NewChecked checks the status updates of a client. There are no events before Tell.
func NewChecked(c client.Client, log *slog.Logger, now func() time.Time) *Checked {
	return &Checked{Client: c, log: log, now: now, told: map[string]bool{}, budget: map[types.UID]*rate.Limiter{}}
}

// Tell has dropped fields said by events, too.
func (c *Checked) Tell(recorder events.EventRecorder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = recorder
}

// Status is the client of statuses.
func (c *Checked) Status() client.SubResourceWriter {
	return checkedStatus{SubResourceWriter: c.Client.Status(), to: c}
}

type checkedStatus struct {
	client.SubResourceWriter
	to *Checked
}

// Update writes the status and makes obj what is stored now. The client clears what it decodes a reply into, so what was dropped is not
// there any more; a status that came back as it was sent, as nearly all do, costs one comparison.
func (s checkedStatus) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	uid := obj.GetUID()
	if wait := s.to.held(uid); wait > 0 {
		return &Held{For: wait}
	}
	stored := reflect.ValueOf(obj).Elem()
	sent := reflect.New(stored.Type()).Elem()
	sent.Set(stored) // the decoder makes new ones of all that this points to
	version := obj.GetResourceVersion()
	if err := s.SubResourceWriter.Update(ctx, obj, opts...); err != nil {
		return err //nolint:wrapcheck // the caller's own client is asked
	}
	lost, err := dropped(sent.FieldByName("Status"), stored.FieldByName("Status"))
	if err != nil {
		return err
	}
	s.to.count(uid, len(lost) > 0, version != obj.GetResourceVersion())
	if len(lost) == 0 {
		return nil
	}
	kind, err := apiutil.GVKForObject(obj, s.to.Scheme())
	if err != nil {
		return fmt.Errorf("the status's kind: %w", err)
	}
	s.to.tell(obj, kind.Kind, lost)
	return nil
}

// dropped lists the fields of a status that were sent and did not come back.
func dropped(sent, came reflect.Value) ([]string, error) {
	if equality.Semantic.DeepEqual(sent.Interface(), came.Interface()) {
		return nil, nil
	}
	var trees [2]any
	for i, v := range []reflect.Value{sent, came} {
		text, err := json.Marshal(v.Interface())
		if err != nil {
			return nil, fmt.Errorf("the status: %w", err)
		}
		if err := json.Unmarshal(text, &trees[i]); err != nil {
			return nil, fmt.Errorf("the status: %w", err)
		}
	}
	return Pruned("status", trees[0], trees[1]), nil
}

// held is how long the object's next write has to wait.
func (c *Checked) held(uid types.UID) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, ok := c.budget[uid]
	if !ok {
		return 0
	}
	if left := l.TokensAt(c.now()); left < 1 {
		return max(time.Millisecond, time.Duration((1-left)*float64(heldBack)))
	}
	return 0
}

// count notes a write. One that changed nothing wakes nobody, so it cannot be one of many without end.
func (c *Checked) count(uid types.UID, lost, changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !lost:
		delete(c.budget, uid) // the CRD was updated
		return
	case !changed:
		return
	case c.budget[uid] == nil:
		if len(c.budget) >= maxObjects {
			clear(c.budget)
		}
		c.budget[uid] = rate.NewLimiter(rate.Every(heldBack), freeWrites)
	}
	c.budget[uid].AllowN(c.now(), 1)
}

// tell says what was dropped that was not said before. Names of fields only: values may be anybody's.
func (c *Checked) tell(obj client.Object, kind string, lost []string) {
	fresh, recorder := c.fresh(kind, lost)
	for _, path := range fresh {
		c.log.Error("the API server dropped a status field: its CRD is older than this controller; apply config/crd of the controller's version",
			"kind", kind, "field", path, "namespace", obj.GetNamespace(), "name", obj.GetName())
	}
	if len(fresh) > 0 && recorder != nil {
		recorder.Eventf(obj, nil, corev1.EventTypeWarning, signals.EventOlderCRD, "UpdateStatus", "%.*s", maxNote,
			"the CRD of "+kind+"s is older than the controller: apply config/crd of the controller's version. Not stored: "+strings.Join(fresh, ", "))
	}
}

func (c *Checked) fresh(kind string, lost []string) (fresh []string, recorder events.EventRecorder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, path := range lost {
		if key := kind + " " + path; !c.told[key] && len(c.told) < maxTold {
			c.told[key] = true
			fresh = append(fresh, path)
		}
	}
	return fresh, c.events
}
