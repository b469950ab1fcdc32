package delivery

import (
	"maps"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// link is what a controller knows of one harness.
type link struct {
	state         LinkState
	boot, journal string
	contact       time.Time
}

// controller is one process: a cache that lags, and memory that dies with it.
type controller struct {
	name  string
	cache map[string]stored
	mem   map[key]*Observed
	links map[*harness]*link
}

// newController has listed, and opens its Links.
func (w *world) newController() *controller {
	c := &controller{name: w.id("controller"), cache: map[string]stored{}, mem: map[key]*Observed{}, links: map[*harness]*link{}}
	w.sync(c)
	return c
}

func (w *world) sync(c *controller) {
	c.cache = map[string]stored{}
	for name, s := range w.api {
		c.cache[name] = *s
	}
}

func (w *world) link(c *controller, h *harness) *link {
	if c.links[h] == nil {
		c.links[h] = &link{state: LinkChallenging, contact: w.now}
	}
	return c.links[h]
}

func (w *world) challenge(c *controller, h *harness) {
	l := w.link(c, h)
	if !h.up || !h.reachable {
		l.state = LinkUnreachable
		return
	}
	*l = link{LinkVerified, h.boot, h.journal, w.now}
}

func (w *world) podOf(uid string) *harness {
	i := slices.IndexFunc(w.pods, func(h *harness) bool { return h.me.PodUID == uid })
	return w.pods[i]
}

// observe is what a controller would hand to Decide.
func (w *world) observe(c *controller, run Run) (*Observed, Observed) {
	if !run.Live() {
		return &Observed{}, Observed{}
	}
	k := key{run.UID, run.Attempt}
	m := c.mem[k]
	if m == nil {
		m = &Observed{Since: w.now}
		c.mem[k] = m
	}
	if run.Cancel && m.CancelSince.IsZero() {
		m.CancelSince = w.now
	}
	h := w.podOf(run.PodUID)
	l := w.link(c, h)
	obs := *m
	obs.Self, obs.Link, obs.Journal, obs.LastContact, obs.Cordoned = c.name, l.state, l.journal, l.contact, h.cordoned
	obs.PodSuspect = !h.exists || h.failed || !w.settling && w.chance(5)
	return m, obs
}

func (w *world) reconcile(c *controller, name string) {
	cached, ok := c.cache[name]
	if !ok {
		return
	}
	m, obs := w.observe(c, cached.run)
	d := Decide(w.now, cached.run, obs)
	if d.Action == ActionReadRun {
		if live := w.api[name]; live == nil {
			delete(c.cache, name)
			return
		} else if c.cache[name] = *live; live.run.UID != cached.run.UID || live.run.Attempt != cached.run.Attempt || !live.run.Live() {
			return
		}
		cached = c.cache[name]
		obs.LiveRun = true
		d = Decide(w.now, cached.run, obs)
	}
	wellFormed(w.t, w.now, cached.run, d)
	w.coverage[actionNames[d.Action]]++
	w.act(c, cached, m, d)
}

var actionNames = map[Action]string{ActionNone: "None", ActionSend: "Send", ActionLook: "Look", ActionVoid: "Void", ActionCancel: "Cancel", ActionReadPod: "ReadPod",
	ActionReadRun: "ReadRun", ActionGiveBack: "GiveBack", ActionNextAttempt: "NextAttempt", ActionRecord: "Record", ActionFinish: "Finish", ActionDisown: "Disown"}

func (w *world) act(c *controller, cached stored, m *Observed, d Decision) {
	run := cached.run
	switch d.Action {
	case ActionSend, ActionLook, ActionVoid, ActionCancel:
		w.call(c, run, m, d.Action)
	case ActionReadPod:
		h := w.podOf(run.PodUID)
		m.PodReadAt, m.PodRead = w.now, PodPresent
		switch {
		case !w.settling && w.chance(20):
			m.PodRead = PodNotRead
		case !h.exists:
			m.PodRead = PodGone
		case h.failed:
			m.PodRead = PodTerminal
		}
	case ActionNone, ActionReadRun, ActionGiveBack, ActionNextAttempt, ActionRecord, ActionFinish, ActionDisown:
	}
	if d.Status == nil || d.Action == ActionNone && d.Status.Succeeded.Reason == run.Reason {
		return
	}
	if !w.update(c, cached, *d.Status) {
		return
	}
	switch d.Action {
	case ActionRecord:
		w.recorded(w.podOf(run.PodUID), key{run.UID, run.Attempt})
		delete(c.mem, key{run.UID, run.Attempt})
	case ActionGiveBack, ActionNextAttempt, ActionFinish:
		delete(c.mem, key{run.UID, run.Attempt})
	case ActionNone, ActionSend, ActionLook, ActionVoid, ActionCancel, ActionReadPod, ActionReadRun, ActionDisown:
	}
}

// update writes; the reply may be lost though it was committed. true: written, and the caller knows.
func (w *world) update(c *controller, cached stored, s Status) bool {
	if !w.write(cached, s) {
		if w.settling {
			w.sync(c)
		}
		return false
	}
	if !w.settling && w.chance(10) {
		return false
	}
	c.cache[cached.run.Name] = *w.api[cached.run.Name]
	return true
}

func (w *world) recorded(h *harness, k key) {
	a := h.book[k]
	if !h.up || !h.reachable || a == nil || w.chance(20) || Record(Held{Same: a}) != nil {
		return
	}
	a.Recorded = true
	if w.chance(50) {
		a.Envelope, a.Forgotten = nil, true
	}
}

func (w *world) call(c *controller, run Run, m *Observed, action Action) {
	h := w.podOf(run.PodUID)
	r := &request{action: action, key: key{run.UID, run.Attempt}, pod: h, boot: w.link(c, h).boot, caller: c, within: time.Duration(StartWithin(w.now, run)) * time.Second,
		body: wire.DeliveryRequest{Run: wire.RunRef{Namespace: run.Namespace, Name: run.Name, UID: run.UID}, Attempt: run.Attempt, Journal: run.Journal, Goal: goalOf(run.UID),
			Target: wire.Target{Name: run.PodName, UID: run.PodUID}}}
	m.InFlight = true
	if action == ActionSend {
		m.Sent.Count++
		m.Absent = false
	}
	if l := w.link(c, h); l.state != LinkVerified || !h.up || !h.reachable {
		if l.state == LinkVerified {
			l.state = LinkUnreachable
		} // else the challenge that it asks for is a step of its own
		w.done(r, reply{Reply: Reply{NeverLeft: true}})
		return
	}
	w.net = append(w.net, r)
}

// deliver lets a request arrive. It may arrive twice, and its reply may get lost.
func (w *world) deliver(i int) {
	r := w.net[i]
	if w.settling || !w.chance(15) {
		w.net = slices.Delete(w.net, i, i+1)
	}
	if !r.pod.up || !r.pod.reachable {
		w.done(r, reply{})
		return
	}
	answer := w.handle(r)
	if !w.settling && w.chance(20) {
		answer = reply{}
	}
	w.done(r, answer)
}

// done hands the reply to the caller, once; the caller may have restarted meanwhile.
func (w *world) done(r *request, answer reply) {
	c := r.caller
	r.caller = nil
	if c == nil || r.orphan || c.mem[r.key] == nil {
		return
	}
	m := c.mem[r.key]
	m.InFlight = false
	if answer.Code == wire.CodeBootChanged {
		w.link(c, r.pod).state = LinkChallenging
	}
	if answer.Verified {
		w.link(c, r.pod).contact = w.now
	} else {
		m.NotBefore = w.now.Add(time.Second)
	}
	switch r.action {
	case ActionSend:
		m.Sent.Outcome, m.Sent.Code = Classify(answer.Reply), answer.Code
	case ActionLook:
		if answer.Code == wire.CodeUnknown {
			m.Absent, m.Seen, m.SeenJournal = true, nil, answer.journal
		}
	default:
	}
	if answer.attempt != nil {
		w.see(m, *answer.attempt, answer.journal)
	}
}

func (w *world) see(m *Observed, a wire.Attempt, journal string) {
	if m.Seen == nil || m.Seen.State != a.State {
		m.SeenSince = w.now
	}
	m.Seen, m.SeenJournal, m.Absent = &a, journal, false
}

// feed is one answer of the long poll: states without envelopes, and the orphans among them.
func (w *world) feed(c *controller, h *harness) {
	l := w.link(c, h)
	if l.state != LinkVerified || l.boot != h.boot || !h.up || !h.reachable {
		w.challenge(c, h)
		return
	}
	l.contact = w.now
	for _, k := range h.keys(func(*Known) bool { return true }) {
		a := h.book[k].Attempt
		a.Envelope = nil
		if m := c.mem[k]; m != nil && (m.Seen == nil || m.Seen.Envelope == nil) {
			w.see(m, a, h.journal)
		}
		read := runRead(c.cache[a.Run.Name], k, h, false)
		action := Orphan(a, "team", h.me.PodUID, read)
		if action == OrphanReadRun {
			var live stored
			if s := w.api[a.Run.Name]; s != nil {
				live = *s
			}
			read = runRead(live, k, h, true)
			read.Failed = !w.settling && w.chance(20)
			action = Orphan(a, "team", h.me.PodUID, read)
			require.NotEqual(w.t, OrphanReadRun, action, "a live read decides")
		}
		switch action {
		case OrphanCancel:
			w.coverage["OrphanCancel"]++
			w.net = append(w.net, &request{action: ActionCancel, key: k, pod: h, boot: l.boot, orphan: true, body: wire.DeliveryRequest{Run: a.Run}})
		case OrphanMarkRecorded, OrphanLateResult:
			w.recorded(h, k)
		case OrphanLeave, OrphanReadRun:
		}
	}
}

func runRead(s stored, k key, h *harness, live bool) RunRead {
	r := RunRead{Live: live, Found: s.run.UID != "", UID: s.run.UID, Terminal: s.run.Terminal, Attempt: s.run.Attempt, PodUID: s.run.PodUID}
	r.Recorded = s.ending != nil && s.ending.Outcome != "" && s.run.Attempt == k.attempt && s.run.PodUID == h.me.PodUID
	return r
}

func (w *world) assign(c *controller) {
	var runs []Run
	for _, name := range slices.Sorted(maps.Keys(c.cache)) {
		runs = append(runs, c.cache[name].run)
	}
	pool := Pool{By: c.name}
	for _, h := range w.pods {
		if h.exists && !h.failed {
			l := w.link(c, h)
			pool.Targets = append(pool.Targets, Target{PodName: h.me.PodName, PodUID: h.me.PodUID, Generation: 1, Cordoned: h.cordoned, Listening: h.up, Link: l.state, Journal: l.journal,
				Agent: h.agent, Capacity: h.capacity()})
		}
	}
	for _, r := range Assign(w.now, runs, pool).Reserves {
		for _, name := range slices.Sorted(maps.Keys(c.cache)) {
			cached := c.cache[name]
			if cached.run.UID != r.Run {
				continue
			}
			sealed := r.Reservation.Seal(r.Run, goalOf(r.Run))
			if w.update(c, cached, ReserveStatus(cached.run, sealed)) {
				c.mem[key{r.Run, sealed.Attempt}] = &Observed{Mine: true, Since: w.now}
			}
		}
	}
}
