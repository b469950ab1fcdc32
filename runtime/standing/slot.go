package standing

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/router"
	"github.com/hearthdev/hearth/runtime/turn"
)

// slot keeps one agent standing and carries out one goal at a time.
type slot struct {
	pool    *Pool
	number  int
	runner  turn.Runner
	closing sync.WaitGroup // sessions being closed
}

func newSlot(p *Pool, n int) *slot {
	return &slot{pool: p, number: n, runner: turn.Runner{
		Policy: p.cfg.Permissions, Output: p.cfg.Output, Silence: p.cfg.Silence, CancelGrace: p.cfg.CancelGrace, Now: p.cfg.Now,
		Tracer: p.cfg.Signals.Tracer, Turned: p.cfg.Signals.Turned,
	}}
}

// run returns nil when ctx ended and the agent is gone, and an error after too many failed starts in a row if every other slot
// had as many: while one has an agent, its turn is worth more than an early end.
func (s *slot) run(ctx context.Context) error {
	cfg, log := &s.pool.cfg, s.pool.cfg.Log.With("slot", s.number)
	failures, falls, hopeless := 0, 0, false
	for starts := 1; ctx.Err() == nil; starts++ {
		if starts > 1 && cfg.Signals.Restarted != nil {
			cfg.Signals.Restarted()
		}
		a, err := raise(ctx, cfg, s.pool.home, s.number)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil
		case err != nil:
			failures++
			log.Error("agent: start failed", "error", err, "failures", failures)
			if !hopeless && failures >= s.pool.patience() {
				hopeless = true
				s.pool.hopeless.Add(1)
			}
			if int(s.pool.hopeless.Load()) == cfg.Concurrency {
				return fmt.Errorf("the agent could not be started %d times in a row; the last time: %w", failures, err)
			}
			falls++
		default:
			s.pool.stood.Store(true)
			if failures = 0; hopeless {
				hopeless = false
				s.pool.hopeless.Add(-1)
			}
			log.Info("agent: ready", "name", a.info.Name, "version", a.info.Version, "pid", a.pid())
			s.stand(ctx, a)
			if ctx.Err() != nil {
				return nil
			}
			log.Warn("agent: ended", "how", a.line.How())
			if falls++; a.ended.Load() || cfg.Now().Sub(a.born) >= healthyAfter {
				falls = 0
			}
			if a.ended.Load() {
				continue // by our own hand: there is nothing to wait for
			}
		}
		wait(ctx, backoff(cfg.FirstBackoff, cfg.MaxBackoff, falls))
	}
	return nil
}

// patience is how many failed starts in a row are too many.
func (p *Pool) patience() int {
	if p.stood.Load() {
		return p.cfg.MaxFailedStarts
	}
	return p.cfg.MaxFirstStarts
}

// backoff doubles with each fall in a row.
func backoff(first, most time.Duration, falls int) time.Duration {
	d := first
	for i := 1; i < falls && d < most; i++ {
		d *= 2
	}
	return min(d, most)
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// stand announces the agent when that is allowed and gives it goals, until it or ctx ends; it is gone when stand returns.
func (s *slot) stand(ctx context.Context, a *agent) {
	defer s.closing.Wait()
	defer func() {
		_ = a.end(context.WithoutCancel(ctx)) // does nothing to one that is gone
		a.home.close(a.dir)
		a.remember() // with what clients have used since the last goal
	}()
	if !s.mayRise(ctx, a) {
		return
	}
	s.pool.cfg.Guests.Rose(s.number, a.conn, a.info) // before anybody is let in
	s.pool.rose(a.info.Name, a.info.Version)
	a.before = a.processes() // nobody waits for that: it is for the first goal
	fell := sync.OnceFunc(func() {
		s.pool.fell()
		s.pool.cfg.Guests.Fell(s.number)
	})
	defer fell()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.line.Exited():
			return
		case <-a.conn.Done():
			return
		case g := <-s.pool.turns:
			if a.gone() {
				g.answer <- answer{again: true}
				return
			}
			if !s.work(ctx, a, g, fell) {
				return
			}
		}
	}
}

// mayRise waits until agents may be announced; false means that this one, or ctx, ended before.
func (s *slot) mayRise(ctx context.Context, a *agent) bool {
	if s.pool.cfg.Opened == nil {
		return true
	}
	select {
	case <-s.pool.cfg.Opened:
		return true
	case <-a.line.Exited():
	case <-a.conn.Done():
	case <-ctx.Done():
	}
	return false
}

// work carries one goal out; false means that the agent is of no further use.
func (s *slot) work(ctx context.Context, a *agent, g pending, fell func()) bool {
	if s.inStanding(g.goal) {
		return s.workStanding(ctx, a, g, fell)
	}
	return s.workFresh(ctx, a, g, fell)
}

// inStanding tells whether a goal belongs into the standing session.
func (s *slot) inStanding(g turn.Goal) bool {
	return cmp.Or(g.Session, s.pool.cfg.Session) == wire.SessionStanding && s.pool.cfg.Concurrency == 1
}

// workFresh carries a goal out in a session of its own, and opens the next.
func (s *slot) workFresh(ctx context.Context, a *agent, g pending, fell func()) bool {
	session, dir, err := s.opened(ctx, a)
	if err != nil {
		if a.gone() {
			g.answer <- answer{again: true}
			return false
		}
		g.answer <- s.unstarted(g, fmt.Errorf("no session could be opened: %w", err))
		return false
	}
	envelope, ended := s.carryOut(ctx, a, g, a.seat(session, nil))
	if g.goal.Session == wire.SessionStanding {
		envelope.Warnings = append(envelope.Warnings, "the session was a fresh one: a harness with several agents keeps no standing session")
	}
	if ended {
		fell() // before anybody is told of the end, so that nobody finds the agent ready after it
		g.answer <- answer{envelope: envelope}
		a.home.close(dir)
		return false
	}
	g.answer <- answer{envelope: envelope}
	s.closing.Go(func() { a.closeSession(ctx, session, dir) })
	if s.pool.cfg.Session == wire.SessionStanding {
		return true // fresh ones are the exception
	}
	opening, stop := s.opening(ctx)
	defer stop()
	if err := a.openSession(opening); err != nil {
		if ctx.Err() == nil { // nobody needs one of a harness that ends
			s.pool.cfg.Log.Error("agent: no further session", "slot", s.number, "error", err)
		}
		return false
	}
	return true
}

func (s *slot) unstarted(g pending, err error) answer {
	return answer{envelope: turn.Unstarted(g.ctx, s.pool.cfg.Now(), err)}
}

func (s *slot) opening(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, s.pool.cfg.StartTimeout, errNoAnswer)
}

func (s *slot) opened(ctx context.Context, a *agent) (*router.Session, string, error) {
	opening, stop := s.opening(ctx)
	defer stop()
	return a.takeSession(opening)
}

// workStanding carries a goal out in the session that remembers.
func (s *slot) workStanding(ctx context.Context, a *agent, g pending, fell func()) bool {
	if a.talk == nil {
		opening, stop := s.opening(ctx)
		err := a.resume(opening)
		stop()
		switch {
		case err != nil && a.gone():
			g.answer <- answer{again: true}
			return false
		case err != nil:
			g.answer <- s.unstarted(g, fmt.Errorf("no standing session could be opened: %w", err))
			return false
		}
	}
	waiting, cancel := context.WithCancel(g.ctx)
	defer context.AfterFunc(ctx, cancel)()
	err := a.free(waiting) //nolint:contextcheck // a goal waits with its caller's context, and by AfterFunc with ours
	cancel()
	if err != nil || a.gone() {
		if err != nil {
			s.pool.cfg.Log.Warn("agent: ended before a goal", "cause", err)
		}
		fell()
		g.answer <- answer{again: true}
		return false
	}
	t := a.talk
	a.before = a.processes()
	envelope, ended := s.carryOut(ctx, a, g, a.seat(t.session, t.memory))
	if t.lost != "" {
		envelope.Warnings = append(envelope.Warnings, t.lost)
		t.lost = ""
	}
	t.over = s.pool.cfg.Now()
	a.remember()
	if ended {
		fell()
	}
	g.answer <- answer{envelope: envelope}
	return !ended
}

// carryOut runs the turn, of which those who are attached are told.
func (s *slot) carryOut(ctx context.Context, a *agent, g pending, seat turn.Seat) (wire.Envelope, bool) {
	turnCtx, cancel := context.WithCancelCause(g.ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(errEnding) })()
	guests := s.pool.cfg.Guests
	guests.Begin(s.number, seat.Session.ID, g.goal.Run, cancel)
	if seat.Memory != nil { // from here on clients are refused, but one may have prompted just before
		if err := a.free(turnCtx); err != nil { //nolint:contextcheck // as below
			s.pool.cfg.Log.Warn("agent: a goal does not wait for a client's prompt any more", "cause", err)
		}
	}
	envelope, ended := s.runner.Run(turnCtx, seat, g.goal, g.start) //nolint:contextcheck // a turn ends with its caller's context, and by AfterFunc with ours
	guests.End(s.number, seat.Session.ID, g.goal.Run, envelope, seat.Memory != nil)
	return envelope, ended
}
