package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/hearthdev/hearth/delivery"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// ErrFull: too much waits for this target already. Nothing was sent or queued.
var ErrFull = errors.New("too many commands wait for this target")

type verb int

const (
	verbSend verb = iota
	verbLook
	verbCancel
	verbVoid
	verbRecorded
	verbs // how many there are
)

// Trace is the trace context that a call carries in its headers (W3C Trace Context); empty for none.
type Trace struct{ Parent, State string }

// Delivery is an attempt to be delivered.
type Delivery struct {
	wire.DeliveryRequest
	Trace Trace
	// Done, if there is one, is called from the Link's goroutine when the call is over, with what it proved. It must not block. It is not
	// called for a delivery that was one too many, nor when the Link is closed before.
	Done func(delivery.Sent)
}

// command is one thing to tell or ask the target.
type command struct {
	verb     verb
	run      wire.RunRef
	number   int64
	delivery *Delivery // verbSend
	begun    int       // verbSend: how many sends the caller knows of
	trace    Trace     // verbSend, verbCancel
}

func (c command) key() Key { return Key{RunUID: c.run.UID, Attempt: c.number} }

// Send delivers an attempt in the background, unless more sends of it were begun than the caller knows of, as in Sent.Count.
// The same attempt may be sent again: it is idempotent. What came of it appears as Sent.
func (l *Link) Send(d Delivery, begun int) error {
	return l.enqueue(command{verb: verbSend, run: d.Run, number: d.Attempt, delivery: &d, begun: begun, trace: d.Trace})
}

// Look asks for one attempt, with its envelope when it has finished. A target that is not verified is challenged at once.
func (l *Link) Look(run wire.RunRef, number int64) error {
	return l.enqueue(command{verb: verbLook, run: run, number: number})
}

// Cancel asks the target to stop an attempt, or to void it when it has not started.
func (l *Link) Cancel(run wire.RunRef, number int64, trace Trace) error {
	return l.enqueue(command{verb: verbCancel, run: run, number: number, trace: trace})
}

// Void asks the target to void an attempt if it has not started; one that has goes on.
func (l *Link) Void(run wire.RunRef, number int64) error {
	return l.enqueue(command{verb: verbVoid, run: run, number: number})
}

// Recorded tells the target that its result is in the API server. Once it has answered, the Link forgets the attempt.
func (l *Link) Recorded(run wire.RunRef, number int64) error {
	return l.enqueue(command{verb: verbRecorded, run: run, number: number})
}

// Forget drops what is known of an attempt that the target does not hold.
func (l *Link) Forget(k Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.book.entries[k]; e != nil && !e.InFlight && e.Seen == nil {
		delete(l.book.entries, k)
	}
}

// Doubt has an absence that was told, or is just being told, count no more: somebody else has sent the attempt since, so only a look
// begun from now on can say that the target does not have it.
func (l *Link) Doubt(k Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.book.entries[k]; e != nil {
		e.Absent = false
		e.doubts++
	}
}

// Snapshot is what is known of one attempt; false when nothing is.
func (l *Link) Snapshot(k Key) (Attempt, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.book.entries[k]
	if e == nil {
		return Attempt{}, false
	}
	return e.Attempt, true
}

// List is every attempt that is known, in no order.
func (l *Link) List() []Attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Attempt, 0, len(l.book.entries))
	for _, e := range l.book.entries {
		out = append(out, e.Attempt)
	}
	return out
}

// About lists what is known of the attempts of runs with a name, in no order.
func (l *Link) About(run string) []Attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Attempt
	for _, e := range l.book.entries {
		if e.Run.Name == run {
			out = append(out, e.Attempt)
		}
	}
	return out
}

// enqueue queues a command unless the same is queued or under way, and sees to it that somebody works.
func (l *Link) enqueue(c command) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return errClosed
	}
	e := l.book.open(c.run, c.number)
	if e == nil || len(l.queue) >= maxQueued {
		return ErrFull
	}
	if e.pending[c.verb] || (c.verb == verbSend && e.Sent.Count > c.begun) {
		return nil
	}
	e.pending[c.verb], e.InFlight = true, true
	if c.verb == verbSend {
		if e.Sent.Count == 0 {
			e.Sent.Count = min(c.begun, 1) // the book made room and has lost what the caller remembers: this is not the first
		}
		e.Sent.Count++ // before a byte leaves
		e.Absent = false
	}
	if c.verb == verbLook && l.status.State != StateVerified {
		l.Kick()
	}
	l.queue = append(l.queue, c)
	if l.workers < maxWorkers {
		l.workers++
		l.group.Go(l.work)
	}
	return nil
}

// work carries out commands until none is left.
func (l *Link) work() {
	for {
		l.mu.Lock()
		if len(l.queue) == 0 {
			l.queue = nil
			l.workers--
			l.mu.Unlock()
			return
		}
		c := l.queue[0]
		l.queue[0] = command{}
		l.queue = l.queue[1:]
		status := l.status
		l.mu.Unlock()
		l.one(c, status)
	}
}

// carryOut does one command and tells whether it got what it wanted; if not, retry is what the target said of when to ask again.
func (l *Link) carryOut(c command, s Status) (done bool, retry time.Duration) {
	ctx, cancel := context.WithTimeout(l.ctx, l.cfg.Timeouts.Call)
	defer cancel()
	switch c.verb {
	case verbSend:
		return l.send(ctx, c, s)
	case verbLook:
		return l.look(ctx, c, s)
	case verbCancel, verbVoid:
		return l.stop(ctx, c, s)
	case verbRecorded:
		return l.record(ctx, c, s)
	case verbs:
	}
	return false, 0
}

// finish files that a command is over.
func (l *Link) finish(c command, done bool, retry time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.book.entries[c.key()]
	if e == nil {
		return
	}
	e.pending[c.verb] = false
	e.InFlight = slices.Contains(e.pending[:], true)
	if done {
		e.failures, e.NotBefore = 0, time.Time{}
		return
	}
	e.failures++
	if retry == 0 {
		retry = l.cfg.Backoff(e.failures)
	}
	e.NotBefore = l.cfg.Now().Add(retry)
}

// ask does one call in the boot that is believed in. Nothing is sent to a target that did not prove who it is.
func (l *Link) ask(ctx context.Context, c call, s Status) (reply, bool, error) {
	if s.State != StateVerified {
		return reply{}, false, errNotVerified
	}
	r, sent, err := l.do(ctx, c, s.Boot)
	if err != nil || r.status == http.StatusPreconditionFailed || r.status == http.StatusUnauthorized {
		l.suspect()
	}
	return r, sent, err
}

func attemptPath(c command, suffix string) string {
	return wire.RunsPath + "/" + url.PathEscape(c.run.UID) + suffix + "?" + wire.QueryAttempt + "=" + strconv.FormatInt(c.number, 10)
}
