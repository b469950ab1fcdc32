package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// watch reads the change feed of one boot from its beginning until it fails (SPEC.md, Endpoints): one held request per Pod, on the
// connection that was challenged.
func (l *Link) watch(n *line, boot string) (watched bool, err error) {
	defer func() { _ = n.Close() }()
	revision, hold := int64(0), false
	for pages := 1; ; pages++ {
		if err := l.pace.Wait(l.ctx); err != nil {
			return watched, errClosed
		}
		if n.over {
			next, err := l.dialAgain(l.ctx, boot)
			if err != nil {
				return watched, err
			}
			_ = n.Close()
			n = next
		}
		page, err := l.page(n, boot, revision, hold)
		if err != nil {
			return watched || l.wasSuspected(), err
		}
		l.learn(page)
		// A harness that only ever gives one page is backed off from like one that gives none.
		watched, revision, hold = pages > 1, page.Revision, true
	}
}

// page asks for one page. The first one is not held: what is there is wanted at once.
func (l *Link) page(n *line, boot string, revision int64, hold bool) (wire.Changes, error) {
	c := call{method: http.MethodGet, path: wire.RunsPath + "?" + wire.QuerySince + "=" + strconv.FormatInt(revision, 10)}
	if hold {
		c.wait = l.cfg.Timeouts.Wait
	}
	ctx, cancel := context.WithTimeout(l.ctx, c.wait+l.cfg.Timeouts.Slack)
	defer cancel()
	l.polling(cancel)
	r, err := l.over(ctx, n, c, boot)
	if errors.Is(err, ErrNoAnswer) {
		l.drop()
	}
	if err != nil {
		return wire.Changes{}, fmt.Errorf("watch: %w", err)
	}
	l.touch()
	if r.status != http.StatusOK {
		return wire.Changes{}, fmt.Errorf("watch: %w", refusal{r.problem()})
	}
	var page wire.Changes
	if err := wire.DecodeAnswer(r.body, &page); err != nil {
		return wire.Changes{}, fmt.Errorf("watch: %w", err)
	}
	if page.Revision < revision {
		return wire.Changes{}, errors.New("watch: the revision went back")
	}
	if !page.Capacity.Valid() {
		return wire.Changes{}, fmt.Errorf("watch: %w", errCapacity)
	}
	return page, nil
}

// polling keeps how to end the poll under way, for suspect. A suspicion from between two polls ends this one at once.
func (l *Link) polling(cancel context.CancelFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.poll = cancel
	if l.suspected {
		cancel()
	}
}

func (l *Link) wasSuspected() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.suspected
}

// suspect has the target challenged anew at once, because a command found it silent, strange or in another boot, rather than
// at the end of the poll.
func (l *Link) suspect() {
	l.mu.Lock()
	cancel := l.poll
	l.suspected = true
	l.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// learn takes over a page of the feed.
func (l *Link) learn(page wire.Changes) {
	link, listed, changed := l.takeOver(page)
	if link || len(changed) > 0 {
		// An attempt accepted and ended between two pages leaves the harness's own figures as they were, and ours not.
		l.cfg.Changed(Change{PodUID: l.cfg.Target.PodUID, State: listed, Link: true, Runs: changed})
	}
}

// takeOver tells whether anything an assignment goes by changed, whether all that the harness holds is known with this page and was not
// before, and the runs of which an attempt changed.
func (l *Link) takeOver(page wire.Changes) (link, listed bool, changed []wire.RunRef) {
	agent := cleanAgent(page.Agent)
	l.mu.Lock()
	defer l.mu.Unlock()
	listed = !page.More && !l.status.Listed
	link = listed || l.status.Agent != agent || l.status.Capacity != page.Capacity
	l.status.Agent, l.status.Capacity, l.status.LastContact = agent, page.Capacity, l.cfg.Now()
	if !page.More {
		l.status.Listed = true
	}
	for _, a := range page.Runs {
		if l.book.learn(a, l.status.Journal, l.status.LastContact) {
			changed = append(changed, a.Run)
		}
	}
	return link, listed, changed
}

// do carries out one call and believes its answer only if it is the target's. Sent tells whether a connection was had, so that
// bytes of the request may have left.
func (l *Link) do(ctx context.Context, c call, boot string) (r reply, sent bool, err error) {
	req, signed, err := l.request(ctx, c, boot)
	if err != nil {
		return reply{}, false, err
	}
	req, had := traced(req)
	// RoundTrip, not Client: a redirect is an answer like any other, to be verified and not to be followed.
	resp, err := l.through().RoundTrip(req)
	if err != nil {
		return reply{}, had.Load(), fmt.Errorf("%s: %w", c.method, quiet(err))
	}
	defer func() { _ = resp.Body.Close() }()
	r, err = l.verified(signed, resp)
	if errors.Is(err, ErrNoAnswer) {
		l.drop()
	}
	if err == nil {
		l.touch()
	}
	return r, true, err
}

func (l *Link) touch() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status.LastContact = l.cfg.Now()
}
