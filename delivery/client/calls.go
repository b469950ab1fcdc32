package client

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/hearthdev/hearth/delivery"
	"github.com/hearthdev/hearth/internal/crashpoint"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// send POSTs an attempt and files what that proved (SPEC.md, Lifecycle, Send).
func (l *Link) send(ctx context.Context, c command, s Status) (done bool, retry time.Duration) {
	body, err := wire.Encode(c.delivery.DeliveryRequest)
	if err != nil { // text of a goal is always encodable; this is a fault of ours, and nothing left
		l.sent(c, delivery.SendNotTaken, "", explain(err))
		return false, 0
	}
	r, left, err := l.ask(ctx, call{method: http.MethodPost, path: wire.RunsPath, body: body, trace: c.trace}, s)
	if err != nil {
		l.sent(c, delivery.Classify(delivery.Reply{NeverLeft: !left}), "", explain(err))
		return false, 0
	}
	p := r.problem()
	outcome := delivery.Classify(delivery.Reply{Verified: true, Status: r.status, Code: p.Code})
	if outcome != delivery.SendAccepted {
		l.sent(c, outcome, p.Code, p.Detail)
		asked := retryAfter(r.retryAfter)
		if outcome == delivery.SendNotTaken && asked > 0 {
			// What comes next is the void, and the run goes elsewhere: only this target is left alone that long (row 28).
			l.update(c, func(e *entry) { e.Sent.RetryAt = l.cfg.Now().Add(asked) })
			return true, 0
		}
		return false, asked
	}
	if !l.learnOne(c, r, s.Journal) {
		l.sent(c, delivery.SendUnknown, "", "the answer is about another attempt")
		return false, 0
	}
	l.sent(c, delivery.SendAccepted, "", "")
	crashpoint.Reach(crashpoint.AfterAccepted)
	return true, 0
}

func (l *Link) sent(c command, outcome delivery.SendOutcome, code wire.Code, message string) {
	l.update(c, func(e *entry) {
		e.Sent.Outcome, e.Sent.Code, e.Sent.Message, e.Sent.RetryAt = outcome, code, message, time.Time{}
	})
}

// look GETs an attempt. Only the target's own "unknown", asked after the last send ended, says that it is not there.
func (l *Link) look(ctx context.Context, c command, s Status) (done bool, retry time.Duration) {
	var before entry
	l.update(c, func(e *entry) { before = *e })
	r, _, err := l.ask(ctx, call{method: http.MethodGet, path: attemptPath(c, "")}, s)
	if err != nil {
		return false, 0
	}
	p := r.problem()
	switch {
	case r.status == http.StatusOK:
		return l.learnOne(c, r, s.Journal), 0
	case r.status == http.StatusNotFound && p.Code == wire.CodeUnknown:
		l.update(c, func(e *entry) {
			overtaken := e.Sent.Count != before.Sent.Count || e.doubts != before.doubts || e.Seen != before.Seen
			if !before.pending[verbSend] && !overtaken && len(p.Journal) <= wire.MaxUIDBytes {
				e.Absent, e.Seen, e.SeenJournal = true, nil, p.Journal
			}
		})
		return true, 0
	default:
		return false, retryAfter(r.retryAfter)
	}
}

// stop DELETEs an attempt. That it has started (409) is an answer too: to be seen on the feed, or by a look.
func (l *Link) stop(ctx context.Context, c command, s Status) (done bool, retry time.Duration) {
	path := attemptPath(c, "")
	if c.verb == verbVoid {
		path += "&" + wire.QueryIfNotStarted
	}
	r, _, err := l.ask(ctx, call{method: http.MethodDelete, path: path, trace: c.trace}, s)
	if err != nil {
		return false, 0
	}
	if r.status == http.StatusOK || r.status == http.StatusAccepted {
		return l.learnOne(c, r, s.Journal), 0
	}
	if r.status == http.StatusConflict {
		return l.look(ctx, c, s)
	}
	return false, retryAfter(r.retryAfter)
}

// record acknowledges a result; 404 says that the target has nothing to drop.
func (l *Link) record(ctx context.Context, c command, s Status) (done bool, retry time.Duration) {
	r, _, err := l.ask(ctx, call{method: http.MethodPost, path: attemptPath(c, wire.RecordedSuffix)}, s)
	if err != nil {
		return false, 0
	}
	if r.status != http.StatusNoContent && r.status != http.StatusNotFound {
		return false, retryAfter(r.retryAfter)
	}
	crashpoint.Reach(crashpoint.AfterRecorded)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.book.entries, c.key())
	return true, 0
}

// learnOne takes over a state that the target answered, if it is about what was asked.
func (l *Link) learnOne(c command, r reply, journal string) bool {
	var a wire.Attempt
	if err := wire.DecodeAnswer(r.body, &a); err != nil || a.Run.UID != c.run.UID || a.Attempt != c.number || !plausible(a) {
		return false // the call got nothing that can be used, so it is backed off from
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.book.learn(a, journal, l.cfg.Now())
	return true
}

// update changes the entry of a command's attempt, if it is still there.
func (l *Link) update(c command, change func(*entry)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.book.entries[c.key()]; e != nil {
		change(e)
	}
}

// explain makes an error into a sentence for a status or a log.
func explain(err error) string {
	_, message := classify(err)
	return message
}

// retryAfter reads delay-seconds (RFC 9110, section 10.2.3) within the bounds of the contract; 0 when there are none.
func retryAfter(header string) time.Duration {
	seconds, err := strconv.ParseUint(header, 10, 31)
	if err != nil {
		return 0
	}
	return delivery.RetryAfter(time.Duration(seconds) * time.Second)
}
