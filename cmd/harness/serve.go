package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/hearthdev/hearth/delivery/journal"
	"github.com/hearthdev/hearth/delivery/kontext"
	"github.com/hearthdev/hearth/delivery/server"
	"github.com/hearthdev/hearth/internal/crashpoint"
	"github.com/hearthdev/hearth/internal/version"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/endpoint"
	"github.com/hearthdev/hearth/runtime/standing"
)

// endLimit is how long agents may take to end once nothing runs any more.
const endLimit = 15 * time.Second

// harness is one boot.
type harness struct {
	cfg    serveConfig
	log    *slog.Logger
	agents *agents
	folk   *people
	door   *door
	fatal  chan error // what ends the harness although nobody asked it to
	heard  *signals
	opened chan struct{} // closed once all that comes before port 4000 is open

	deliveries net.Listener // with delivery only, as the rest
	journal    *journal.Journal
	server     deliverer
	stop       context.CancelFunc // ends the delivery listener
	served     chan error
}

func newHarness(cfg serveConfig, log *slog.Logger) *harness {
	return &harness{cfg: cfg, log: log, agents: &agents{standing: cfg.goal, session: wire.SessionFresh}, fatal: make(chan error, 1), opened: make(chan struct{})}
}

// assemble makes the agents, where people meet them, and the door to there. Nothing is started.
func (h *harness) assemble(ctx context.Context, environ, agentEnv []string) (err error) {
	if h.folk, err = newPeople(&h.cfg.config, environ, h.log); err != nil {
		return err
	}
	h.door = &door{endpoint: endpoint.New(endpoint.Config{Addr: h.cfg.acpListen, Keys: h.cfg.keys, Clients: h.folk, Transcripts: h.folk.store, Log: h.log, Now: time.Now, Ended: h.fail, Attached: h.heard.attached})}
	agent := h.cfg.pool(agentEnv, h.cfg.concurrency, h.folk.hub, h.log, func(info wire.AgentInfo) { h.agentChanged(ctx, info) }, h.heard.agents())
	agent.Session, agent.Opened = h.cfg.sessionMode(), h.opened
	h.agents.pool, err = standing.New(agent)
	h.folk.pool = h.agents.pool
	return err
}

// serve boots in the order of SPEC.md, Harness, and blocks until the harness ended.
func serve(args []string, signals <-chan os.Signal, log *slog.Logger) error {
	if err := conceal(); err != nil {
		return err
	}
	environ := os.Environ()
	cfg, err := parseServe(args, environ)
	if err != nil {
		return err
	}
	older, err := identifyOlder(environ, hostname)
	if err != nil {
		return err
	}
	who, err := identify(environ, hostname)
	if err != nil {
		return err
	}
	agentEnv, err := cfg.takeSecrets(environ, log)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	h := newHarness(cfg, log)
	var heard sync.WaitGroup
	heard.Go(func() { h.heard = newSignals(ctx, environ, log) }) // nobody tells them anything before there are agents or a journal
	var locked *journal.Locked
	if who != nil || older != nil {
		locked, err = h.lockJournal() // first: its lock says that the directory is ours
	}
	if err == nil {
		err = h.bind(ctx, who, older)
	}
	heard.Wait()
	defer h.heard.close(ctx)
	if err == nil {
		h.heard.listen(ctx, cfg.metricsListen)
		err = h.assemble(ctx, environ, agentEnv)
	}
	if err == nil {
		err = h.stand(ctx, signals, func() error { return h.open(ctx, locked, who, older) })
	} else {
		err = errors.Join(err, h.closeDelivery())
	}
	return errors.Join(err, locked.Close()) // last: no agent lives in the directory any more
}

// bind opens the port for deliveries of the contract that there are credentials for. It is done before an agent is started, which could take
// it otherwise; deliveries are served once the journal is open, and who calls before that waits.
func (h *harness) bind(ctx context.Context, who *credentials, older *olderCredentials) error {
	var address string
	switch {
	case who != nil:
		address = h.cfg.deliveryListen
	case older != nil:
		address = h.cfg.kontextListen
	default:
		return nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("delivery: %s is in use by another process", address)
	}
	if err != nil {
		return fmt.Errorf("delivery: listen on %s: %w", address, err)
	}
	h.deliveries = listener
	return nil
}

// open opens what is to be open before port 4000: the journal, in which the last boot's runs are settled, and what is served at the ports
// that are bound.
func (h *harness) open(ctx context.Context, locked *journal.Locked, who *credentials, older *olderCredentials) error {
	if locked != nil {
		if err := h.openJournal(ctx, locked); err != nil {
			return err
		}
	}
	h.heard.serve(ctx)
	switch {
	case who != nil:
		return h.openDelivery(ctx, *who)
	case older != nil:
		return h.openOlder(ctx, *older)
	default:
		h.log.Info("delivery: off, because neither " + envToken + " nor " + kontext.TokenVariable + " is set")
		return nil
	}
}

// openDelivery serves the wire's contract. Deliveries are refused until an agent answers.
func (h *harness) openDelivery(ctx context.Context, who credentials) error {
	deliveries, err := server.New(server.Config{
		Identity: who.identity, Keys: who.keys, Scheme: wire.Scheme(h.cfg.deliveryScheme), Journal: h.journal, Runner: h.agents, Concurrency: h.cfg.concurrency, Queue: h.cfg.queue,
		Version: version.Of(), Now: time.Now, Log: h.log, Tracer: h.heard.tracer, Answered: h.heard.set.Answered,
	})
	if err != nil {
		return err
	}
	h.server = deliveries
	h.deliver(ctx, "scheme", h.cfg.deliveryScheme)
	return nil
}

// lockJournal locks the journal's directory.
func (h *harness) lockJournal() (*journal.Locked, error) {
	return journal.Lock(journal.Config{
		Dir: h.cfg.dataDir, Now: time.Now, Log: h.log, Keep: h.cfg.keep,
		BeforeWrite: func(name string) error { crashpoint.Reach(crashpoint.BeforeWrite(name)); return nil },
		AfterWrite:  func(name string) { crashpoint.Reach(crashpoint.AfterWrite(name)) },
		Wrote:       func(_ string, took time.Duration) { h.heard.set.Wrote(took) },
	})
}

func (h *harness) openJournal(ctx context.Context, locked *journal.Locked) (err error) {
	if h.journal, err = locked.Open(); err != nil {
		return err
	}
	h.heard.set.Watch(h.journal.Counts)
	h.heard.interrupted(ctx, h.journal.Unfinished())
	return nil
}

// deliver answers on the delivery listener, of whichever contract; about says more of it in the log.
func (h *harness) deliver(ctx context.Context, about ...any) {
	serving, stop := context.WithCancel(ctx)
	h.stop, h.served = stop, make(chan error, 1)
	h.log.Info("delivery: listening", append([]any{"addr", h.deliveries.Addr().String(), "boot", h.server.Boot(), "journal", h.journal.ID()}, about...)...)
	server, listener := h.server, h.deliveries
	go func() {
		err := server.Serve(serving, listener)
		if err != nil {
			h.fail(err)
		}
		h.served <- err
	}()
}

// agentChanged opens port 4000 when an agent answers and closes it when none does, then tells those who deliver. The pool announces no
// agent before the rest is open.
func (h *harness) agentChanged(ctx context.Context, info wire.AgentInfo) {
	h.agents.info.Store(&info)
	if err := h.door.set(ctx, info.State == wire.AgentReady); err != nil {
		h.fail(err)
	}
	if h.server != nil {
		h.server.AgentChanged()
	}
}

func (h *harness) fail(err error) {
	select {
	case h.fatal <- err:
	default: // one reason is enough
	}
}

// stand starts the agents, opens beside that what else has to be open before port 4000, and keeps the agents standing until a signal
// drains the harness or something ends it.
func (h *harness) stand(ctx context.Context, signals <-chan os.Signal, open func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- h.agents.pool.Run(ctx) }()
	cause, over := open(), false
	if cause == nil { // otherwise no agent is ever announced, and nothing that the last boot accepted is started
		close(h.opened)
		cause, over = h.untilEnd(ctx, signals, ended)
	}
	errs := []error{cause, h.door.close(), h.closeDelivery()} //nolint:contextcheck // who leaves has time of its own
	if !over {
		limit, cancel := context.WithTimeout(ctx, endLimit)
		defer cancel()
		if err := h.agents.pool.End(limit); err != nil {
			errs = append(errs, err)
		} else {
			errs = append(errs, <-ended)
		}
	}
	return errors.Join(append(errs, h.folk.close())...)
}

// untilEnd waits for what ends the harness; over tells that the agents have ended by themselves.
func (h *harness) untilEnd(ctx context.Context, signals <-chan os.Signal, ended <-chan error) (cause error, over bool) {
	select {
	case s := <-signals:
		h.log.Info("draining", "signal", s.String(), "limit", h.cfg.drain)
		return h.drain(ctx, signals), false
	case cause = <-h.fatal:
		return cause, false
	case cause = <-ended:
		return cause, true
	}
}

// drain closes port 4000, lets work finish and be handed over, and stops early at a second signal.
func (h *harness) drain(ctx context.Context, signals <-chan os.Signal) error {
	err := h.door.drain()
	if h.server == nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case s := <-signals:
			h.log.Warn("cancelling what runs", "signal", s.String())
			cancel()
		case <-ctx.Done():
		}
	}()
	h.server.Drain(ctx, h.cfg.drain)
	h.log.Info("drained")
	return err
}

// closeDelivery ends what bind and open began of it, as far as they came.
func (h *harness) closeDelivery() error {
	var errs []error
	if h.server != nil {
		h.server.Close()
	}
	switch {
	case h.stop != nil:
		h.stop()
		<-h.served
	case h.deliveries != nil:
		errs = append(errs, h.deliveries.Close())
	}
	if h.journal != nil {
		errs = append(errs, h.journal.Close())
	}
	return errors.Join(errs...)
}
