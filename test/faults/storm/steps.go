package storm

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/faults/apifault"
	"github.com/hearthdev/hearth/test/faults/netfault"
	"github.com/hearthdev/hearth/test/faults/rig"
)

const (
	// A fault of the network or the API server lasts at most as long, and then the same Pod has peace, so that no cancel is kept from
	// it for the thirty seconds within which it has to arrive.
	longest = 6 * time.Second
	peace   = 15 * time.Second
	gentle  = 5 * time.Second // grace of a Pod's deletion
)

// goals are what runs ask the scripted agent for.
var goals = []string{"say: ok", "say: ok", "slow: 1", "slow: 2", "slow: 3", "slow: 4", "mute:", "error: -32000 no", "crash: 3 oh", "huge: 300000", "slow: 2 ;; tool: completed"}

type step struct {
	weight int
	do     func(*Storm)
}

// all are the steps that can be taken. Weights have most of them be work.
var all = []step{
	{50, (*Storm).create},
	{6, func(s *Storm) {
		if r, ok := s.some(s.living()); ok {
			s.say("%s is cancelled", r.Name)
			s.w.Cancel(r.AgentRun)
		}
	}},
	{6, func(s *Storm) {
		runs := slices.DeleteFunc(slices.Clone(s.Runs), func(r *Run) bool { return r.Deleted })
		if r, ok := s.some(runs); ok {
			s.say("%s is deleted", r.Name)
			s.w.Delete(r.AgentRun)
			r.Deleted = true
		}
	}},
	{1, (*Storm).recast},
	{1, func(s *Storm) { s.scale(draw(s, []string{plain, retrying}), s.rng.Int32N(3)+1) }},

	{2, (*Storm).killController},
	{1, (*Storm).freeze},
	{1, func(s *Storm) {
		if len(s.controllers) < 2 {
			s.say("another controller is started")
			s.controllers = append(s.controllers, s.w.Controller())
		}
	}},

	{6, onPod(func(s *Storm, p *rig.Pod) { p.Kill() }, false, "the harness in %s is killed")},
	{2, onPod(func(s *Storm, p *rig.Pod) { p.KillAgent() }, false, "the agent in %s is killed")},
	{1, onPod(func(s *Storm, p *rig.Pod) {
		p.StayDown()
		p.LoseJournal()
		p.Up()
	}, false, "%s loses its journal")},
	{1, onPod(func(s *Storm, p *rig.Pod) {
		p.Stop()
		s.after(s.between(0, longest), p.Cont)
	}, true, "the harness in %s is stopped for a while")},
	{1, onPod(func(s *Storm, p *rig.Pod) { p.Delete(gentle) }, false, "%s is deleted")},
	{1, onPod(func(s *Storm, p *rig.Pod) { p.ForceDelete(false) }, false, "%s is deleted by force")},
	{1, onPod(func(s *Storm, p *rig.Pod) { p.Evict() }, false, "%s is evicted")},

	{6, (*Storm).network},
	{2, func(s *Storm) {
		if p, ok := s.pod(agents, false); ok {
			s.say("all connections of %s are cut", p.Name)
			p.Proxy.Cut()
		}
	}},

	{3, (*Storm).apiWrite},
	{1, func(s *Storm) {
		s.say("the API server is away")
		s.w.API.Down()
		s.after(s.between(0, longest/2), s.w.API.Up)
	}},
	{1, func(s *Storm) {
		resource := draw(s, []string{"agentruns", "pods", "agents"})
		s.say("watches of %s are late", resource)
		s.w.API.HoldWatches(resource)
		s.after(s.between(0, longest), s.w.API.ReleaseWatches)
	}},
}

func (s *Storm) some(runs []*Run) (*Run, bool) {
	if len(runs) == 0 {
		return nil, false
	}
	return draw(s, runs), true
}

// pod is one that takes work. For what would keep a cancel from it for a while it must not be resting, and rests afterwards.
func (s *Storm) pod(of []string, lasting bool) (*rig.Pod, bool) {
	var fit []*rig.Pod
	for _, agent := range of {
		for _, p := range s.w.Pods(agent) {
			if p.Ready() && (!lasting || time.Now().After(s.resting[p.UID])) {
				fit = append(fit, p)
			}
		}
	}
	if len(fit) == 0 {
		return nil, false
	}
	p := draw(s, fit)
	if lasting {
		s.resting[p.UID] = time.Now().Add(longest + peace)
	}
	return p, true
}

func onPod(do func(*Storm, *rig.Pod), lasting bool, words string) func(*Storm) {
	return func(s *Storm) {
		if p, ok := s.pod([]string{plain, retrying}, lasting); ok {
			s.say(words, p.Name+" ("+string(p.UID)+")")
			do(s, p)
		}
	}
}

// network stalls, loses, delays or refuses what goes to one Pod, for a while.
func (s *Storm) network() {
	faults := []struct {
		name  string
		fault netfault.Fault
	}{{"refuses", netfault.Refuse}, {"swallows everything", netfault.Blackhole}, {"loses replies", netfault.DropReplies}, {"is slow", netfault.Delay(time.Second)}, {"closes by halves", netfault.HalfClose}}
	if p, ok := s.pod(agents, true); ok {
		f := draw(s, faults)
		s.say("the network of %s %s", p.Name, f.name)
		p.Proxy.Set(f.fault)
		s.after(s.between(0, longest), p.Proxy.Heal)
	}
}

// apiWrite has the API server fail the next writes of runs' statuses, having done them or not.
func (s *Storm) apiWrite() {
	rule := s.w.API.On(apifault.Match{Verbs: []string{"update", "patch"}, Resource: "agentruns", Subresource: "status"})
	times := 1 + s.rng.IntN(3)
	switch s.rng.IntN(4) {
	case 0:
		s.say("%d writes meet a conflict", times)
		rule.Fail(http.StatusConflict, times)
	case 1:
		s.say("%d writes meet an error", times)
		rule.Fail(http.StatusInternalServerError, times)
	case 2:
		s.say("%d writes are done and time out", times)
		rule.Commit(http.StatusGatewayTimeout, times)
	default:
		s.say("%d writes are done and lose their answer", times)
		rule.Drop(times)
	}
	s.after(longest, rule.Remove)
}

func (s *Storm) killController() {
	if s.quiet || len(s.controllers) == 0 {
		return
	}
	c := draw(s, s.controllers)
	s.say("controller %d is killed", c.PID())
	c.Kill()
	delete(s.frozen, c)
	s.alive()
}

// freeze stops a controller's time; another one leads meanwhile, and it does not know that when it goes on.
func (s *Storm) freeze() {
	c := draw(s, s.controllers)
	if s.frozen[c] {
		return
	}
	s.say("controller %d is frozen", c.PID())
	c.Freeze()
	s.frozen[c] = true
	s.alive()
	s.w.DropLease()
	s.after(s.between(longest/2, 2*longest), func() {
		s.say("controller %d goes on", c.PID())
		c.Thaw()
		delete(s.frozen, c)
	})
}

// recast gives an Agent another template.
func (s *Storm) recast() {
	name := draw(s, []string{plain, retrying})
	s.template++
	s.say("%s gets another template", name)
	s.change(name, func(a *hearthv1.Agent) {
		c := &a.Spec.Template.Spec.Containers[0]
		c.Env = slices.DeleteFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "TEMPLATE" })
		c.Env = append(c.Env, corev1.EnvVar{Name: "TEMPLATE", Value: fmt.Sprint(s.template)})
	})
}

func (s *Storm) scale(name string, to int32) {
	s.say("%s is scaled to %d", name, to)
	s.change(name, func(a *hearthv1.Agent) { a.Spec.Replicas = ptr.To(to) })
}

func (s *Storm) change(name string, change func(*hearthv1.Agent)) {
	s.t.Helper()
	require.NoError(s.t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		var a hearthv1.Agent
		if err := s.w.User.Get(s.t.Context(), types.NamespacedName{Namespace: s.w.Namespace, Name: name}, &a); err != nil {
			return err
		}
		change(&a)
		return s.w.User.Update(s.t.Context(), &a, &client.UpdateOptions{})
	}))
}
