package turn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/coder/acp-go-sdk"
	"github.com/go-json-experiment/json"
	"go.opentelemetry.io/otel/trace"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/router"
)

// Seat is where a turn takes place: a session of one agent process.
type Seat struct {
	Session *router.Session
	// Memory is what is known of a session that has more than this turn; nil: it is used once, and released.
	Memory *Memory
	Agent  string // agentInfo.name
	// LastHeard is when the agent last wrote anything.
	LastHeard func() time.Time
	// Census remembers the processes of the turn that run now: of one that sheds all signs of where it came from, only its parent
	// tells, and that may be the first to go.
	Census func()
	// Settled waits a moment and tells whether all processes that the turn started are gone.
	Settled func(context.Context) bool
	// Ask puts a permission question to people; if nobody answers in time, otherwise does. It returns at once. Without it nobody
	// can be asked.
	Ask func(question *router.Request, otherwise func())
	// End ends the agent process with everything it started; it is bounded in time.
	End func(context.Context) error
}

// Runner runs turns.
type Runner struct {
	Policy      Policy
	Output      MediaType     // what the run's output is to be; "" is Text
	Silence     time.Duration // without any output for so long the agent counts as silent
	CancelGrace time.Duration // how long an agent may take to answer after session/cancel
	Now         func() time.Time
	// Tracer begins the spans of turns; nil: there are none, and a goal's own trace is passed on.
	Tracer trace.Tracer
	// Turned, unless nil, is told of each turn that ended: of goals of which start was recorded. kept is the ID of the trace that it is kept in, or "".
	Turned func(e wire.Envelope, took time.Duration, kept string)
}

// play is one turn under way.
type play struct {
	Runner
	seat   Seat
	goal   Goal
	gather *collector
	memory *Memory
	spans  *spans // nil until the start is recorded
}

// Run carries the goal out. start is called once, right before the prompt is sent; if it fails nothing is sent. When ctx ends
// the turn is cancelled by the ladder, with context.Cause as the message. ended tells that the agent process was, or has, ended.
func (r Runner) Run(ctx context.Context, seat Seat, g Goal, start func(session string) error) (envelope wire.Envelope, ended bool) {
	profile := profileOf(seat.Agent)
	p := &play{Runner: r, seat: seat, goal: g, memory: seat.Memory}
	p.gather = newCollector(questions{policy: r.Policy, ask: seat.Ask}, profile, r.Output, g.Limits)
	defer p.gather.stop() // nobody is asked for a turn that is over
	if p.memory == nil {
		p.memory = NewMemory(r.Policy, nil, false, Account{})
		defer seat.Session.Release()
	}
	defer p.memory.end()
	began := r.Now()
	if p.goal.Limits.Since.IsZero() {
		p.goal.Limits.Since = began
	}
	if v, refused := p.refuse(ctx, profile.promptBytes); refused {
		return p.finish(facts{}, v, began), false
	}
	call, early := p.begin(ctx, start)
	if early != nil {
		return p.over(p.finish(facts{}, *early, began)), false
	}
	f, v := p.follow(ctx, call)
	if r.Output == JSON && v.outcome == wire.OutcomeSucceeded {
		f, v = p.asJSON(ctx, f, v)
	}
	v.warnings = append(v.warnings, p.gather.blind()...)
	return p.over(p.finish(f, v, began)), f.ended
}

// over tells of the end of a turn.
func (p *play) over(e wire.Envelope) wire.Envelope {
	if p.spans == nil {
		return e
	}
	p.spans.end(e)
	if p.Turned != nil {
		p.Turned(e, e.Timing.FinishedAt.Sub(e.Timing.StartedAt), p.spans.kept())
	}
	return e
}

// follow waits for the end of a prompt, brings it about where it is due, and judges it.
func (p *play) follow(ctx context.Context, call *router.Call) (facts, verdict) {
	f := facts{agent: p.seat.Agent}
	p.await(ctx, call, &f)
	if f.demand != noDemand {
		p.ladder(ctx, call, &f)
	}
	answer, err := call.Result()
	var rpc *router.RPCError
	switch {
	case f.ending == forced:
	case errors.As(err, &rpc):
		f.ending, f.detail = errored, cmp.Or(f.detail, "the agent answered with an error: "+rpc.Error())
	case errors.Is(err, router.ErrLineTooLong):
		f.ending, f.detail = unreadable, cmp.Or(f.detail, err.Error())
	case err != nil:
		f.ending, f.detail, f.ended = crashed, cmp.Or(f.detail, err.Error()), true
	default:
		p.gather.answered(f.read(answer))
	}
	p.gather.tell(&f)
	return f, judge(f)
}

// refuse finds reasons not to begin.
func (p *play) refuse(ctx context.Context, limit int) (verdict, bool) {
	if ctx.Err() != nil {
		return notStarted(ctx), true
	}
	if left, limited := p.goal.Limits.left(p.Now()); limited && left <= 0 {
		return failed(wire.ReasonDeadlineExceeded, fmt.Sprintf("the run's own time of %d s was over before the agent could take the goal; nothing was sent", p.goal.Limits.ActiveSeconds)), true
	}
	n, err := p.seat.Session.PromptBytes(p.longestMeta(), p.texts()...)
	switch {
	case err != nil:
		return failed(wire.ReasonAgentError, "the goal could not be encoded"), true
	case n > limit:
		return failed(wire.ReasonLimitReached, fmt.Sprintf("the prompt of %d bytes is over the agent's limit of %d bytes; nothing was sent", n, limit)), true
	}
	return verdict{}, false
}

func (p *play) texts() []string {
	instructed, _ := p.memory.Told()
	return p.goal.texts(instructed)
}

func notStarted(ctx context.Context) verdict {
	return verdict{outcome: wire.OutcomeCancelled, reason: wire.ReasonCancelled, message: "cancelled before the start: " + context.Cause(ctx).Error()}
}

// Unstarted is the envelope of a goal that never reached an agent, because ctx ended first or, if it did not, because of err.
func Unstarted(ctx context.Context, now time.Time, err error) wire.Envelope {
	v := failed(wire.ReasonAgentError, "not started: "+err.Error())
	if ctx.Err() != nil {
		v = notStarted(ctx)
	}
	return wire.Envelope{
		APIVersion: wire.ResultAPIVersion, Outcome: v.outcome, Reason: v.reason,
		Message: wire.CutText(wire.CleanText(v.message), maxMessage),
		Timing:  wire.Timing{StartedAt: now.UTC(), FinishedAt: now.UTC()},
	}
}

// begin tells the caller and sends the prompt; a verdict means that nothing was sent.
func (p *play) begin(ctx context.Context, start func(session string) error) (*router.Call, *verdict) {
	if err := start(p.seat.Session.ID); err != nil {
		v := failed(wire.ReasonAgentError, "the start could not be recorded, so nothing was sent: "+err.Error())
		return nil, &v
	}
	p.spans = p.Runner.spans(ctx, p.goal, p.seat.Session.ID)
	if ctx.Err() != nil {
		v := notStarted(ctx)
		return nil, &v
	}
	texts := p.texts()
	p.gather.trace(p.spans)
	p.memory.begin(p.seat.Session, p.gather)
	call, err := p.seat.Session.PromptWith(p.spans.meta(), texts...)
	if err != nil {
		v := failed(wire.ReasonAgentCrashed, "the prompt could not be sent: "+err.Error())
		return nil, &v
	}
	p.memory.sent()
	return call, nil
}

// await returns when the prompt was answered, or with the reason to stop it in f.
func (p *play) await(ctx context.Context, call *router.Call, f *facts) {
	c := p.gather
	quiet := time.NewTimer(p.Silence)
	defer quiet.Stop()
	var late <-chan time.Time
	if left, limited := p.goal.Limits.left(p.Now()); limited {
		timer := time.NewTimer(left)
		defer timer.Stop()
		late = timer.C
	}
	for {
		select {
		case <-call.Done():
		case <-ctx.Done():
			f.demand, f.detail = cancelled, context.Cause(ctx).Error()
		case <-late:
			f.demand, f.detail = deadline, p.late()
		case <-c.lost:
			f.demand, f.detail = lostPart, router.ErrLineTooLong.Error()
		case <-c.broke:
			f.demand = overBudget
		case <-quiet.C:
			if rest := p.Silence - c.quiet(p.seat.LastHeard(), p.Now()); rest > 0 {
				quiet.Reset(rest)
				continue
			}
			f.demand, f.detail = silence, fmt.Sprintf("the agent wrote nothing for %s", p.Silence)
		}
		break
	}
	select {
	case <-call.Done(): // the answer was first; it is worth nothing when a part of the turn was lost
		if f.demand != lostPart {
			f.demand, f.detail = noDemand, ""
		}
		select {
		case <-c.lost:
			f.demand, f.detail = lostPart, router.ErrLineTooLong.Error()
		default:
		}
	default:
	}
}

// late says that the run's own time is over.
func (p *play) late() string {
	return fmt.Sprintf("the run's own time of %d s is over", p.goal.Limits.ActiveSeconds)
}

// ladder stops the turn: permission questions end as "cancelled", session/cancel, a while for the real stop reason, then the end
// of the process with everything it started (SPEC.md, Harness). An agent that obeys but leaves processes of the turn behind is ended too.
func (p *play) ladder(ctx context.Context, call *router.Call, f *facts) {
	ctx = context.WithoutCancel(ctx)
	p.seat.Census() // first, because it takes a while: an agent whose question ends as "cancelled" could end the turn before it hears why
	p.gather.stop()
	_ = p.seat.Session.Cancel() // a connection that is gone shows in the answer
	grace := time.NewTimer(p.CancelGrace)
	defer grace.Stop()
	select {
	case <-call.Done():
		if _, err := call.Result(); err != nil && !isAnswer(err) {
			f.ended = true
			return
		}
		if p.seat.Settled(ctx) {
			return
		}
		p.gather.note("processes that the turn had left running were ended with the agent")
	case <-grace.C:
		f.ending = forced
	}
	if err := p.seat.End(ctx); err != nil {
		p.gather.note(err.Error())
	}
	<-call.Done() // the end of the process settles it
	f.ended = true
}

// isAnswer tells an error that the agent answered from one of the connection.
func isAnswer(err error) bool {
	var rpc *router.RPCError
	return errors.As(err, &rpc) || errors.Is(err, router.ErrLineTooLong)
}

// read takes the stop reason and the usage of the prompt's answer.
func (f *facts) read(answer []byte) *wire.Usage {
	var p struct {
		StopReason acp.StopReason `json:"stopReason"`
		Usage      *struct {
			InputTokens  *int64 `json:"inputTokens"`
			OutputTokens *int64 `json:"outputTokens"`
			TotalTokens  *int64 `json:"totalTokens"`
		} `json:"usage"`
	}
	f.ending = answered
	if err := json.Unmarshal(answer, &p, router.Lenient); err != nil {
		f.ending, f.detail = errored, "the agent's answer to the prompt is not the protocol's"
		return nil
	}
	f.stop = p.StopReason
	if p.Usage == nil {
		return nil
	}
	u := &wire.Usage{InputTokens: p.Usage.InputTokens, OutputTokens: p.Usage.OutputTokens, TotalTokens: p.Usage.TotalTokens}
	for _, n := range []*int64{u.InputTokens, u.OutputTokens, u.TotalTokens} {
		f.measured = f.measured || (n != nil && *n > 0)
	}
	return u
}

// tell completes the facts with what was gathered.
func (c *collector) tell(f *facts) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.text, f.activity, f.tools = c.size > 0, c.activity, c.tools.Calls
	if over := c.meter.over(); over != "" && (f.demand == noDemand || f.demand == overBudget) {
		f.demand, f.detail = overBudget, over // the answer itself may have told it
	}
	f.last = c.head
	if len(c.head) > keptHead-utf8.UTFMax { // it may have been cut: both ends of a long message
		f.last = c.head + c.tail
	}
}

// answered takes the usage of the prompt's answer.
func (c *collector) answered(u *wire.Usage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.meter.answered(u)
}

func (c *collector) blind() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.meter.blind()
}

func (c *collector) note(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.warn(text)
}

// finish makes the envelope.
func (p *play) finish(f facts, v verdict, began time.Time) wire.Envelope {
	ended := p.Now()
	e := wire.Envelope{
		APIVersion: wire.ResultAPIVersion, Session: p.seat.Session.ID, Outcome: v.outcome, Reason: v.reason,
		Message: wire.CutText(wire.CleanText(v.message), maxMessage), Warnings: v.warnings,
		StopReason: wire.CutText(wire.CleanText(string(f.stop)), maxWarning),
		Timing:     wire.Timing{StartedAt: began.UTC(), FinishedAt: ended.UTC(), DurationMillis: ended.Sub(began).Milliseconds()},
	}
	p.gather.fill(&e, v.answer)
	return e
}
