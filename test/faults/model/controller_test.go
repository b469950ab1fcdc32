package model

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/agent"
	"github.com/hearthdev/hearth/delivery"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// link is what a controller knows of one harness, by challenges and by the feed.
type link struct {
	state         delivery.LinkState
	boot, journal string
	contact       time.Time
	listed        bool
	held          int
	capacity      wire.Capacity
	agent         wire.AgentState
}

// note is what a controller remembers of one attempt.
type note struct {
	delivery.Observed
	pod      *harness
	accepted bool // seen in the status: what was said to be absent before may be there
}

// controller is one process: a cache of which each kind lags by itself, and memory that dies with it.
type controller struct {
	name   string
	agents *agent.Reconciler
	asked  string // the Agent whose runs the pass under way is about
	cache  objects
	own    map[string]stored // what its own writes returned, until the cache has it
	notes  map[key]*note
	links  map[*harness]*link
	cut    map[*harness]bool             // the network between them is cut
	passes map[string][]delivery.Reserve // assignments under way: what is still to be written, by Agent
	views  map[string]stored             // what these were decided upon, by run UID
}

// newController has listed everything, and opens its Links.
func (w *world) newController() *controller {
	c := &controller{name: w.id("controller"), own: map[string]stored{}, notes: map[key]*note{}, links: map[*harness]*link{}, cut: map[*harness]bool{},
		passes: map[string][]delivery.Reserve{}, views: map[string]stored{}}
	c.agents = w.newReconciler(c)
	w.sync(c)
	w.tell("%s starts", c.name)
	return c
}

func (w *world) sync(c *controller) {
	for kind := range kinds {
		c.cache.take(&w.api, kind)
	}
	w.links(c)
}

// run is a run as new as this controller knows it.
func (c *controller) run(name string) (stored, bool) {
	cached, ok := c.cache.runs[name]
	if own, written := c.own[name]; written && own.run.UID == cached.run.UID && own.version > cached.version {
		return own, ok
	}
	return cached, ok
}

func (c *controller) note(k key) *note { return c.notes[k] }

// reservedOn are the attempts reserved on a Pod, by what this controller knows.
func (c *controller) reservedOn(podUID string) []key {
	var out []key
	for _, name := range sorted(c.cache.runs) {
		if s, _ := c.run(name); s.run.Live() && !s.run.Terminal && s.run.PodUID == podUID {
			out = append(out, key{s.run.UID, s.run.Attempt})
		}
	}
	return out
}

// links opens a Link for each Pod, and closes one when the API server confirms that its Pod is gone.
func (w *world) links(c *controller) {
	for _, name := range sorted(c.cache.pods) {
		if p := c.cache.pods[name]; !p.failed && c.links[w.byUID(p.uid)] == nil && w.byUID(p.uid).exists {
			c.links[w.byUID(p.uid)] = &link{state: delivery.LinkChallenging, contact: w.now}
		}
	}
	for _, h := range w.harnesses {
		if p, ok := c.cache.pods[h.me.PodName]; c.links[h] == nil || ok && p.uid == h.me.PodUID && !p.failed || h.exists && !h.failed {
			continue
		}
		delete(c.links, h)
		for _, n := range c.notes {
			if n.pod == h && n.InFlight { // of what was under way nobody knows the end
				n.InFlight, n.Sent.Outcome = false, delivery.SendUnknown
			}
		}
	}
}

func (w *world) reaches(c *controller, h *harness) bool { return h.up && !c.cut[h] }

func (w *world) challenge(c *controller, h *harness) {
	l := c.links[h]
	switch {
	case l == nil:
	case !w.reaches(c, h):
		l.state = delivery.LinkUnreachable
	case l.state != delivery.LinkVerified || l.boot != h.boot:
		*l = link{state: delivery.LinkVerified, boot: h.boot, journal: h.journal, contact: w.now}
	default:
		l.contact = w.now
	}
}

// observe is what a controller would hand to Decide. The note is what it keeps.
func (w *world) observe(c *controller, s stored) (*note, delivery.Observed) {
	run := s.run
	n := c.notes[key{run.UID, run.Attempt}]
	if n == nil {
		n = &note{Observed: delivery.Observed{Since: w.now}}
		c.notes[key{run.UID, run.Attempt}] = n
	}
	if run.Cancel && n.CancelSince.IsZero() {
		n.CancelSince = w.now
	}
	obs := n.Observed
	obs.Self, obs.AgentGone = c.name, w.agentGone(c, s)
	if !run.Live() {
		return n, delivery.Observed{Self: c.name, AgentGone: obs.AgentGone, CancelSince: n.CancelSince}
	}
	n.pod = w.byUID(run.PodUID)
	if accepted := !run.AcceptedAt.IsZero(); accepted && !n.accepted {
		n.accepted, n.Absent, obs.Absent = true, false, false
	}
	if l := c.links[n.pod]; l == nil {
		obs.Link, obs.LastContact = delivery.LinkNone, n.Since
	} else {
		obs.Link, obs.Journal, obs.LastContact = l.state, l.journal, l.contact
	}
	p, ok := c.cache.pods[run.PodName]
	obs.PodSuspect = !ok || p.uid != run.PodUID || p.failed || w.mishap(3)
	obs.Cordoned = ok && p.uid == run.PodUID && p.terminating
	return n, obs
}

func (w *world) agentGone(c *controller, s stored) bool {
	if a := c.cache.agents[s.agent]; a != nil && a.UID == s.agentUID {
		return false
	}
	a := w.api.agents[s.agent]
	return a == nil || a.UID != s.agentUID
}

// reconcile carries a run on, as controller/deliver does: observe, decide, write, act.
func (w *world) reconcile(c *controller, name string) {
	s, ok := c.run(name)
	if !ok {
		return
	}
	n, obs := w.observe(c, s)
	d := delivery.Decide(w.now, s.run, obs)
	if d.Action == delivery.ActionReadPod {
		w.coverage["ReadPod"]++
		w.readPod(n)
		obs.PodRead, obs.PodReadAt = n.PodRead, n.PodReadAt
		d = delivery.Decide(w.now, s.run, obs)
	}
	if d.Action == delivery.ActionReadRun {
		w.coverage["ReadRun"]++
		live, ok := w.api.runs[name]
		if !ok || live.run.UID != s.run.UID || live.run.Terminal || live.run.Attempt != s.run.Attempt {
			return
		}
		s, obs.LiveRun = live, true
		d = delivery.Decide(w.now, s.run, obs)
	}
	if d.Status != nil && w.differs(s, *d.Status) && !w.writes(c, s, *d.Status) {
		return
	}
	w.act(c, s.run, n, d.Action)
}

func (w *world) differs(s stored, want delivery.Status) bool {
	return want.Ending != nil || want.Progress != s.run.Progress || want.Succeeded.Reason != s.run.Reason || want.Phase != s.run.Phase
}

func (w *world) readPod(n *note) {
	n.PodReadAt, n.PodRead = w.now, delivery.PodPresent
	switch {
	case w.mishap(20):
		n.PodRead = delivery.PodNotRead
	case !n.pod.exists:
		n.PodRead = delivery.PodGone
	case n.pod.failed:
		n.PodRead = delivery.PodTerminal
	}
}

// writes tells whether it was written and the caller knows: the answer may be lost though it was, and it may fail.
func (w *world) writes(c *controller, s stored, want delivery.Status) bool {
	if w.mishap(4) || !w.update(s, want) {
		return false
	}
	if w.mishap(8) {
		w.coverage["written, and the answer lost"]++
		return false
	}
	c.own[s.run.Name] = w.api.runs[s.run.Name]
	return true
}

var actions = map[delivery.Action]string{delivery.ActionSend: "Send", delivery.ActionLook: "Look", delivery.ActionVoid: "Void", delivery.ActionCancel: "Cancel",
	delivery.ActionGiveBack: "GiveBack", delivery.ActionNextAttempt: "NextAttempt", delivery.ActionRecord: "Record", delivery.ActionFinish: "Finish", delivery.ActionDisown: "Disown"}

func (w *world) act(c *controller, run delivery.Run, n *note, action delivery.Action) {
	k := key{run.UID, run.Attempt}
	if name := actions[action]; name != "" {
		w.coverage[name]++
		w.tell("%s: %s %v", c.name, name, k)
	}
	switch action {
	case delivery.ActionSend, delivery.ActionLook, delivery.ActionVoid, delivery.ActionCancel:
		w.call(c, run, n, action)
	case delivery.ActionRecord:
		w.recorded(c, n.pod, k)
		delete(c.notes, k)
	case delivery.ActionGiveBack:
		if n.Seen != nil && n.Seen.State == wire.StateVoided {
			w.recorded(c, n.pod, k)
		}
		delete(c.notes, k)
	case delivery.ActionNextAttempt, delivery.ActionFinish:
		delete(c.notes, k)
	default:
	}
}

// recorded tells a harness that a record was written; it may not arrive, and the payload may be dropped.
func (w *world) recorded(c *controller, h *harness, k key) {
	a := h.book[k]
	if c.links[h] == nil || !w.reaches(c, h) || a == nil || w.mishap(20) || delivery.Record(delivery.Held{Same: a}) != nil {
		return
	}
	a.Recorded = true
	if w.chance(50) {
		a.Envelope, a.Forgotten = nil, true
	}
}

// look is one answer of the long poll: states without envelopes, capacity, and the orphans among them.
func (w *world) look(c *controller, h *harness) {
	l := c.links[h]
	if l == nil || l.state != delivery.LinkVerified || l.boot != h.boot || !w.reaches(c, h) {
		w.challenge(c, h)
		return
	}
	l.contact, l.capacity, l.agent, l.listed, l.held = w.now, h.capacity(), h.state, true, len(h.keys(unrecorded))
	if h.draining {
		l.agent = wire.AgentDown
	}
	for _, k := range h.keys(func(*delivery.Known) bool { return true }) {
		a := h.book[k].Attempt
		a.Envelope = nil
		if n := c.notes[k]; n != nil && (n.Seen == nil || n.Seen.Envelope == nil) {
			w.see(n, a, h.journal)
		}
		w.orphan(c, h, k, a)
	}
}

func (w *world) orphan(c *controller, h *harness, k key, a wire.Attempt) {
	s, _ := c.run(a.Run.Name)
	action := delivery.Orphan(a, namespace, h.me.PodUID, runRead(s, k, h, false))
	if action == delivery.OrphanReadRun {
		read := runRead(w.api.runs[a.Run.Name], k, h, true)
		if w.mishap(20) {
			read = delivery.RunRead{Live: true, Failed: true}
		}
		action = delivery.Orphan(a, namespace, h.me.PodUID, read)
		require.NotEqual(w.t, delivery.OrphanReadRun, action, "a live read decides")
	}
	switch action {
	case delivery.OrphanCancel:
		w.coverage["OrphanCancel"]++
		w.tell("%s: %v is an orphan in %s", c.name, k, h.me.PodUID)
		w.net = append(w.net, &request{action: delivery.ActionCancel, key: k, pod: h, boot: c.links[h].boot, orphan: true, body: wire.DeliveryRequest{Run: a.Run}})
	case delivery.OrphanLateResult:
		w.coverage["OrphanLateResult"]++
		w.recorded(c, h, k)
	case delivery.OrphanMarkRecorded:
		w.recorded(c, h, k)
	case delivery.OrphanLeave, delivery.OrphanReadRun:
	}
}

func runRead(s stored, k key, h *harness, live bool) delivery.RunRead {
	r := delivery.RunRead{Live: live, Found: s.run.UID != "", UID: s.run.UID, Terminal: s.run.Terminal, Attempt: s.run.Attempt, PodUID: s.run.PodUID}
	r.Recorded = s.ending != nil && s.ending.Outcome != "" && s.run.Attempt == k.attempt && s.run.PodUID == h.me.PodUID
	return r
}

// pool is everything an Agent could deliver to, by what this controller knows.
func (w *world) pool(c *controller, a *hearthv1.Agent) delivery.Pool {
	pool := delivery.Pool{By: c.name}
	for _, name := range sorted(c.cache.standing) {
		r := c.cache.standing[name]
		if r.OwnerReferences[0].UID != a.UID {
			continue
		}
		generation, _ := strconv.ParseInt(r.Annotations[hearthv1.AnnotationGeneration], 10, 64)
		t := delivery.Target{PodName: name, Generation: generation, Cordoned: r.Status.CordonedAt != nil}
		if p, ok := c.cache.pods[name]; ok && p.uid == string(r.Status.PodUID) {
			t.PodUID, t.Listening = p.uid, p.listening
			if l := c.links[w.byUID(p.uid)]; l != nil {
				t.Link, t.Journal, t.Agent, t.Capacity = l.state, l.journal, l.agent, l.capacity
				if !l.listed {
					t.Link = delivery.LinkChallenging
				}
			}
			for _, k := range c.reservedOn(p.uid) {
				if n := c.notes[k]; n == nil || n.Seen == nil {
					t.Reserved++
				}
			}
		}
		pool.Targets = append(pool.Targets, t)
	}
	return pool
}

// assign begins an assignment for an Agent, or goes on with the one under way: one write a step, so that anything may happen between.
func (w *world) assign(c *controller, name string) {
	if left := c.passes[name]; len(left) > 0 {
		c.passes[name] = left[1:]
		w.reserve(c, c.views[left[0].Run], left[0])
		return
	}
	a := c.cache.agents[name]
	if a == nil {
		return
	}
	var runs []delivery.Run
	for _, run := range sorted(c.cache.runs) {
		if s, _ := c.run(run); s.agentUID == a.UID && s.run.Admitted {
			runs = append(runs, s.run)
			c.views[s.run.UID] = s
		}
	}
	c.passes[name] = delivery.Assign(w.now, runs, w.pool(c, a)).Reserves
	for _, r := range c.passes[name] {
		require.Nil(w.t, c.cache.standing[r.Reservation.PodName].Status.CordonedAt, "%s chose %s for %s, and knew that it takes no work", c.name, r.Reservation.PodName, r.Run)
	}
}

func (w *world) reserve(c *controller, view stored, r delivery.Reserve) {
	sealed := r.Reservation.Seal(r.Run, goalOf(r.Run))
	k := key{r.Run, sealed.Attempt}
	if c.notes[k] == nil || c.notes[k].Observed.Self == "" {
		c.notes[k] = &note{Observed: delivery.Observed{Since: w.now, Mine: true}, pod: w.byUID(sealed.PodUID)} // before the write, whose answer may be lost
	}
	if w.writes(c, view, delivery.ReserveStatus(view.run, sealed)) {
		w.coverage["Reserve"]++
		w.tell("%s reserves %s for %v", c.name, sealed.PodUID, k)
	}
}

// runs are the names that a controller's cache has.
func (c *controller) runs() []string { return slices.Sorted(maps.Keys(c.cache.runs)) }
