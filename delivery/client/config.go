package client

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/hearthdev/hearth/challenge"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// Bounds of one Link. Everything a peer could make grow has one.
const (
	// maxWorkers is the number of commands under way at once, beside the feed.
	maxWorkers = 3
	// maxQueued is the number of commands that wait for a worker: more than one target may ever hold (64 running, 1,024 queued).
	maxQueued = 1280
	// maxAttempts is the number of attempts kept in memory. What a harness lists beyond it is left out.
	maxAttempts = 4096
	// maxHeaderBytes bounds the header of an answer.
	maxHeaderBytes = 32 << 10
	// maxIdle is the number of connections kept for the next command: as many as are ever in use, because a new one costs a handshake and
	// a challenge. They are closed after idleTime.
	maxIdle = maxWorkers + 1
	// idleTime stays below the time after which a server closes an idle connection.
	idleTime = 15 * time.Second
	// pagesPerSecond bounds how fast a harness that always has news is asked again.
	pagesPerSecond, pageBurst = 50, 100
	// maxMessage bounds the text of a peer that is kept in a message, in bytes.
	maxMessage = 512
)

// Timeouts bound every wait on a peer. Zero values stand for the defaults.
type Timeouts struct {
	// Dial bounds connecting and the challenge on the new connection: 5 s.
	Dial time.Duration
	// Call bounds one command from the first byte to the last of its answer: 10 s.
	Call time.Duration
	// Slack is added to Wait for one answer of the feed: 10 s.
	Slack time.Duration
	// Wait is how long the harness is asked to hold the feed: wire.FeedWaitSeconds. Whole seconds.
	Wait time.Duration
}

const (
	defaultDial  = 5 * time.Second
	defaultCall  = 10 * time.Second
	defaultSlack = 10 * time.Second
	defaultWait  = wire.FeedWaitSeconds * time.Second
)

func (t Timeouts) withDefaults() Timeouts {
	for _, f := range []struct {
		value    *time.Duration
		standard time.Duration
	}{{&t.Dial, defaultDial}, {&t.Call, defaultCall}, {&t.Slack, defaultSlack}, {&t.Wait, defaultWait}} {
		if *f.value <= 0 {
			*f.value = f.standard
		}
	}
	return t
}

// Config is what a Link needs to know. Everything but Scheme, Panicked and Timeouts is required.
type Config struct {
	// Target is the Pod this Link is for. Another one at the address is not believed.
	Target wire.Identity
	// Address is the Pod's IP and delivery port, as host:port.
	Address string
	// Scheme is HTTPS unless set.
	Scheme wire.Scheme
	// Keys are the Pod's, from its root secret. They are kept for the life of the Link.
	Keys challenge.Keys
	// Now tells the time.
	Now func() time.Time
	// Random is the source of challenges; safe for concurrent use.
	Random io.Reader
	// Log gets changes of the Link's state; never a goal or a key.
	Log *slog.Logger
	// Changed is called, from the Link's goroutines, after something changed. It must not block and must not call Close.
	Changed func(Change)
	// Panicked, if there is one, is called at every panic in one of the Link's goroutines. The Link goes on.
	Panicked func()
	// Backoff is how long to wait after so many failures in a row, from 1 on.
	Backoff func(failures int) time.Duration

	Timeouts Timeouts
}

// Change says what changed on a Link.
type Change struct {
	PodUID string
	// State: its state, boot or journal, but for the first proof, whose list follows; or that it is listed now.
	State bool
	// Link: anything of its Status that an assignment goes by.
	Link bool
	// Runs are those of which an attempt changed.
	Runs []wire.RunRef
}

func (c Config) check() error {
	if c.Target.Namespace == "" || c.Target.PodName == "" || c.Target.PodUID == "" {
		return errors.New("target: expected namespace, name and UID of a Pod")
	}
	if c.Now == nil || c.Random == nil || c.Log == nil || c.Changed == nil || c.Backoff == nil {
		return errors.New("link: expected clock, random source, logger, callback and backoff")
	}
	if c.Scheme != "" && c.Scheme != wire.SchemeHTTPS && c.Scheme != wire.SchemeHTTP {
		return fmt.Errorf("scheme: expected %s or %s, got %.16q", wire.SchemeHTTPS, wire.SchemeHTTP, c.Scheme)
	}
	return checkAddress(c.Address)
}

func checkAddress(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil || net.ParseIP(host) == nil {
		return fmt.Errorf("address %q: expected IP:port", address)
	}
	return nil
}
