package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/hearthdev/hearth/challenge/pinned"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// State is whether the target can be talked to.
type State string

// The states of a Link.
const (
	StateChallenging     State = "challenging"     // not answered yet
	StateVerified        State = "verified"        // the target proved who it is, and is being watched
	StateUnreachable     State = "unreachable"     // nobody there gave a valid answer
	StateUnauthenticated State = "unauthenticated" // the target answered 401: it does not accept our proof
	StateIncompatible    State = "incompatible"    // the target answered 406, 413 or 415, or serves no version we speak
)

// Status is a Link as a whole. A target that is not verified is no target, whatever its probe says (SPEC.md, Lifecycle).
type Status struct {
	State   State
	Message string    // why it is not verified, in a sentence
	Since   time.Time // when the state was entered
	Opened  time.Time // when the Link was made

	// LastContact is when the target last gave a valid answer; zero when it never did.
	LastContact time.Time
	// Boot, Journal, Agent and Capacity are what it said then. Running and Queued count what it told of single attempts since, so
	// that one accepted a moment ago is counted.
	Boot, Journal string
	Agent         wire.AgentInfo
	Capacity      wire.Capacity
	// Listed: all attempts that this boot holds unrecorded have been read at least once.
	Listed bool
	// Held is how many attempts the target has or may have that did not end, or whose result it was not told is recorded. It counts
	// only what is known: before Listed, 0 means nothing.
	Held int
}

// Link is the authenticated connection to one standing Pod, for the Pod's whole life. All methods are safe for concurrent use
// and none waits for the network, but Close, which ends what is under way and waits for its goroutines.
type Link struct {
	cfg    Config
	ctx    context.Context
	cancel context.CancelFunc
	tls    *tls.Config
	pace   *rate.Limiter
	wake   chan struct{} // a Kick: challenge now, do not wait out the backoff
	group  sync.WaitGroup

	mu        sync.Mutex
	address   string
	transport *http.Transport // of one boot: nothing kept alive outlives it
	status    Status
	conns     map[*conn]struct{}
	poll      context.CancelFunc // ends the poll under way
	suspected bool               // a command found the target silent, strange or in another boot since the last challenge
	book      book
	queue     []command
	workers   int
}

// New makes a Link; Start makes it work.
func New(cfg Config) (*Link, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg.Timeouts = cfg.Timeouts.withDefaults()
	ctx, cancel := context.WithCancel(context.Background())
	now := cfg.Now()
	l := &Link{
		cfg: cfg, ctx: ctx, cancel: cancel, tls: pinned.Client(cfg.Keys), address: cfg.Address,
		pace: rate.NewLimiter(pagesPerSecond, pageBurst), wake: make(chan struct{}, 1),
		conns: map[*conn]struct{}{}, book: newBook(),
		status: Status{State: StateChallenging, Since: now, Opened: now},
	}
	l.transport = l.newTransport()
	return l, nil
}

// newTransport makes one that dials only what proves to be the Pod, and knows no proxy. A RoundTripper follows no redirect.
func (l *Link) newTransport() *http.Transport {
	return &http.Transport{
		DialContext: l.proven, DisableCompression: true, ForceAttemptHTTP2: false,
		MaxIdleConns: maxIdle, MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: idleTime,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
}

// Start begins to challenge and to watch. Call it once.
func (l *Link) Start() { l.group.Go(l.run) }

// Close ends everything under way, and waits until no goroutine of the Link is left. What was under way is Unknown.
func (l *Link) Close() {
	l.mu.Lock()
	l.cancel()
	l.queue = nil
	l.mu.Unlock()
	l.drop()
	l.group.Wait()
	l.through().CloseIdleConnections()
}

// Target is the Pod that the Link is for.
func (l *Link) Target() wire.Identity { return l.cfg.Target }

func (l *Link) target() wire.Target {
	return wire.Target{Name: l.cfg.Target.PodName, UID: l.cfg.Target.PodUID}
}

// Address is where the Pod is dialled.
func (l *Link) Address() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.address
}

// Move changes the address: a Pod keeps its UID when its sandbox is made again with another IP. What the Link knows stays.
func (l *Link) Move(address string) error {
	if err := checkAddress(address); err != nil {
		return err
	}
	l.mu.Lock()
	same := l.address == address
	l.address = address
	l.mu.Unlock()
	if !same {
		l.drop()
		l.Kick()
	}
	return nil
}

// Kick has a Link that waits out a backoff challenge now. Call it when there is news of the Pod, such as its readiness.
func (l *Link) Kick() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Status is the Link as it is now.
func (l *Link) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.status
	s.Held = l.book.held(s.Journal)
	if s.Listed {
		s.Capacity.Running, s.Capacity.Queued = l.book.alive(s.Journal)
	}
	return s
}

// run challenges, watches until that fails, and begins again after a backoff, until the Link is closed.
func (l *Link) run() {
	failures := 0
	for l.ctx.Err() == nil {
		watched, err := l.live()
		if l.ctx.Err() != nil {
			return
		}
		if watched {
			failures = 0 // it was good until now: the first new challenge comes at once
			continue
		}
		failures++
		l.fail(err)
		l.pause(l.cfg.Backoff(failures))
	}
}

// live is one life of the connection. Watched tells whether the feed went on beyond its first page.
func (l *Link) live() (watched bool, err error) {
	defer l.caught(&err)
	n, answer, err := l.dial(l.ctx)
	if err != nil {
		return false, err
	}
	l.accept(answer)
	return l.watch(n, answer.Boot)
}

func (l *Link) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.wake:
	case <-l.ctx.Done():
	}
}

// accept takes over what an answered challenge said.
func (l *Link) accept(a wire.ChallengeAnswer) {
	l.mu.Lock()
	l.suspected = false
	now := l.cfg.Now()
	first := l.status.State == StateChallenging
	if l.status.State != StateVerified {
		l.status.State, l.status.Since, l.status.Message = StateVerified, now, ""
		l.book.retry()
	}
	var before *http.Transport
	if l.status.Boot != a.Boot {
		l.status.Listed = false
		before, l.transport = l.transport, l.newTransport()
	}
	l.status.Boot, l.status.Journal, l.status.LastContact = a.Boot, a.Journal, now
	l.status.Agent, l.status.Capacity = cleanAgent(a.Agent), a.Capacity
	l.mu.Unlock()
	if before != nil {
		before.CloseIdleConnections()
	}
	l.cfg.Log.Info("link: the Pod proved who it is", "pod", l.cfg.Target.PodName, "podUID", l.cfg.Target.PodUID, "boot", a.Boot)
	// Who has waited for this target since the Link was opened goes by its list, which comes next; until then nothing has changed for them.
	l.cfg.Changed(Change{PodUID: l.cfg.Target.PodUID, State: !first, Link: true})
}

// through is the transport of the boot that is believed in.
func (l *Link) through() *http.Transport {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.transport
}

// believed is the boot that is believed in, "" while there is none.
func (l *Link) believed() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.status.State != StateVerified {
		return ""
	}
	return l.status.Boot
}

// fail says why the target cannot be talked to.
func (l *Link) fail(err error) {
	l.drop()
	state, message := classify(err)
	l.mu.Lock()
	changed := l.status.State != state || l.status.Message != message
	if l.status.State != state {
		l.status.Since = l.cfg.Now()
	}
	l.status.State, l.status.Message = state, message
	l.mu.Unlock()
	if changed {
		l.cfg.Log.Info("link: cannot talk to the Pod", "pod", l.cfg.Target.PodName, "podUID", l.cfg.Target.PodUID, "state", state, "message", message)
		l.cfg.Changed(Change{PodUID: l.cfg.Target.PodUID, State: true, Link: true})
	}
}

// classify makes an error of the challenge or the feed into a state and a sentence.
func classify(err error) (State, string) {
	var refused refusal
	switch {
	case errors.As(err, &refused):
		state := StateUnreachable
		switch refused.Status {
		case http.StatusUnauthorized:
			state = StateUnauthenticated
		case http.StatusNotAcceptable, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType:
			state = StateIncompatible
		}
		return state, fmt.Sprintf("the harness answered %d %s: %s", refused.Status, refused.Code, refused.Detail)
	case errors.Is(err, ErrNoAnswer):
		return StateUnreachable, "somebody answers at the Pod's address, but nobody there could prove to be the Pod"
	case errors.Is(err, pinned.ErrOtherKey):
		return StateUnreachable, "somebody answers at the Pod's address with another TLS key than the Pod's; nothing was sent"
	case errors.Is(err, errNoTLS):
		return StateUnreachable, "what answers at the Pod's address does not speak TLS 1.3; nothing was sent. " +
			"A runtime that speaks plain HTTP needs runtime.delivery.scheme: HTTP"
	case errors.Is(err, errNoHandshake):
		return StateUnreachable, "nobody at the Pod's address ended the TLS handshake; nothing was sent"
	default:
		return StateUnreachable, wire.CutText(wire.CleanText(err.Error()), maxMessage)
	}
}

// cleanAgent bounds what an agent says of itself.
func cleanAgent(a wire.AgentInfo) wire.AgentInfo {
	return wire.AgentInfo{
		Name:    wire.CutText(wire.CleanText(a.Name), maxCode),
		Version: wire.CutText(wire.CleanText(a.Version), maxCode),
		State:   wire.AgentState(wire.CutText(string(a.State), maxCode)),
	}
}
