package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/api/shard"
	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/apiserver"
	"github.com/hearthdev/hearth/test/bench/node"
	"github.com/hearthdev/hearth/test/exposition"
	"github.com/hearthdev/hearth/test/sandbox"
)

const (
	blue      = "hearth.dev/shard=blue"
	plain     = "hearth.dev/shard notin (blue)"
	perAgent  = 10
	patiently = time.Minute
)

var unserved = regexp.MustCompile(`(?m)^hearth_agents_unserved [2-9]`)

// shards is a namespace with Agents of two shards, and what the controllers of both do there.
type shards struct {
	t                 *testing.T
	admin, someone    client.Client
	namespace, rights string
	node              *node.Node
	agents            []string
	// selects are the selectors of the processes, by the names that they are started by.
	selects map[string]string
}

func newShards(t *testing.T) *shards {
	t.Helper()
	ctx := t.Context()
	root, err := apiserver.Root()
	require.NoError(t, err)
	for _, dir := range []string{"config/webhook", "config/shards"} {
		require.NoError(t, apiserver.Apply(ctx, server.Admin(t), filepath.Join(root, filepath.FromSlash(dir))))
	}
	require.NoError(t, sandbox.Install(ctx, server.Admin(t))) // its cache is one of its own
	s := &shards{t: t, admin: server.Client(t), someone: server.ClientAsGroup(t, "someone", "system:masters"), namespace: server.Namespace(t),
		rights: apiserver.Kubeconfig(t, server.Controller(t)), selects: map[string]string{}}
	s.node, err = node.Spawn(ctx, node.Options{Kubeconfig: apiserver.Kubeconfig(t, server.Admin(t)), Dir: t.TempDir(), Log: t.Output()})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.node.Close()) })
	return s
}

func (s *shards) start(name, selector string) *process {
	s.t.Helper()
	s.selects[name] = selector
	p := startAs(s.t, name, s.rights, "--agent-selector="+selector)
	require.Eventually(s.t, func() bool { return p.ready(s.t) }, patiently, 20*time.Millisecond)
	return p
}

// struck kills a process as a lost node does, and starts the next of its shard. What is left of the old one's Lease is not waited for.
func (s *shards) struck(p *process, name string) *process {
	s.t.Helper()
	selector := s.selects[p.Args[0]]
	require.NoError(s.t, p.Process.Kill())
	require.Error(s.t, p.Wait())
	require.NoError(s.t, s.admin.Delete(s.t.Context(), s.lease(selector)))
	return s.start(name, selector)
}

func (s *shards) lease(selector string) *coordinationv1.Lease {
	s.t.Helper()
	set, err := shard.Parse(selector)
	require.NoError(s.t, err)
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "hearth-system", Name: set.Lease()}}
}

func (s *shards) leads(selector string) string {
	s.t.Helper()
	lease := s.lease(selector)
	if err := s.admin.Get(s.t.Context(), client.ObjectKeyFromObject(lease), lease); err != nil {
		return ""
	}
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

// agent makes an Agent of a shard by that of its name, and waits until it can take work.
func (s *shards) agent(name string) {
	s.t.Helper()
	a := reviewer(s.namespace)
	a.Name, a.Spec.GoalTemplate = name, node.Hold
	a.Spec.Runtime.Delivery = &v1alpha1.DeliveryRuntime{Concurrency: 2, Queue: ptr.To[int32](2)}
	if strings.HasPrefix(name, "blue") {
		a.Labels = map[string]string{v1alpha1.LabelShard: "blue"}
	}
	var err error
	require.Eventually(s.t, func() bool { // the API server takes a moment to see where the webhooks are
		err = s.someone.Create(s.t.Context(), a.DeepCopy())
		return err == nil || apierrors.IsAlreadyExists(err)
	}, patiently, 50*time.Millisecond)
	require.Eventually(s.t, func() bool {
		require.NoError(s.t, s.admin.Get(s.t.Context(), client.ObjectKeyFromObject(a), a))
		return meta.IsStatusConditionTrue(a.Status.Conditions, v1alpha1.AgentConditionReady)
	}, patiently, 50*time.Millisecond, "Agent %s", name)
	s.agents = append(s.agents, name)
}

// half has half of each Agent's runs made, by way of the one process that admission is asked of.
func (s *shards) half(through *process, from int) {
	s.t.Helper()
	reach(s.t, s.admin, through.webhook)
	for _, agent := range s.agents {
		for i := from; i < perAgent; i += 2 {
			run := &v1alpha1.AgentRun{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: fmt.Sprintf("%s-work%d", agent, i)},
				Spec: v1alpha1.AgentRunSpec{AgentRef: v1alpha1.AgentRef{Name: agent}}}
			require.Eventually(s.t, func() bool {
				err := s.someone.Create(s.t.Context(), run.DeepCopy())
				return err == nil || apierrors.IsAlreadyExists(err)
			}, patiently, 20*time.Millisecond)
		}
	}
}

func (s *shards) runs() []v1alpha1.AgentRun {
	s.t.Helper()
	var all v1alpha1.AgentRunList
	require.NoError(s.t, s.admin.List(s.t.Context(), &all, client.InNamespace(s.namespace)))
	return slices.DeleteFunc(all.Items, func(r v1alpha1.AgentRun) bool { return !r.Delivered() })
}

func (s *shards) count(is func(*v1alpha1.AgentRun) bool) int {
	n, all := 0, s.runs()
	for i := range all {
		if is(&all[i]) {
			n++
		}
	}
	return n
}

// apart: no process wrote, or deleted, anything of the other shard, or was sent any of it, and each made as many Pods as its Agents have.
func (s *shards) apart() {
	s.t.Helper()
	made, cached := map[string]int{}, map[string]bool{}
	for _, r := range server.Audit(s.t, apiserver.ControllerUser) {
		name, _, _ := strings.Cut(r.Agent, "/")
		selector, ours := s.selects[name]
		if ours && r.Namespace == "" && slices.Contains([]string{"agentruns", "pods", "services", "sandboxes"}, r.Resource) {
			cached[selector+" "+r.Verb+" "+r.Resource] = true
			s.onlyOwn(r, selector == blue)
		}
		if !ours || r.Namespace != s.namespace || slices.Contains([]string{"get", "list", "watch"}, r.Verb) || strings.HasPrefix(r.Resource, "events") {
			continue
		}
		if r.Verb == "create" && r.Resource == "pods" && r.Code == 201 {
			made[selector]++
		}
		if r.Name != "" {
			assert.Equal(s.t, selector == blue, strings.HasPrefix(r.Name, "blue"), "%s (%s): %+v", name, selector, r)
		}
	}
	assert.Equal(s.t, map[string]int{blue: 2, plain: 2}, made)
	for _, what := range []string{"watch agentruns", "watch pods", "watch services", "watch sandboxes"} {
		assert.True(s.t, cached[blue+" "+what] && cached[plain+" "+what], what)
	}
}

// onlyOwn: what a cache asks for is of its own shard alone, so that a controller's memory and events are its own Agents'.
func (s *shards) onlyOwn(r apiserver.Request, isBlue bool) {
	s.t.Helper()
	selects, err := labels.Parse(r.Selector)
	require.NoError(s.t, err)
	of := labels.Set{v1alpha1.LabelRun: "a-run"}
	assert.Equal(s.t, !isBlue, selects.Matches(of), "%+v", r)
	of[v1alpha1.LabelShard] = "blue"
	assert.Equal(s.t, isBlue, selects.Matches(of), "%+v", r)
}

// SPEC.md, Shards: two controllers, each killed once with work under way. Every run is carried out once and recorded, each by its own
// shard's controller, and either of them admits for both.
func TestTwoShardsShareTheAgentsAndNoRun(t *testing.T) {
	s, ctx := newShards(t), t.Context()
	first, second := s.start("blue-1", blue), s.start("plain-1", plain)
	reach(t, s.admin, second.webhook)
	for _, name := range []string{"blue-a", "plain-a", "blue-b", "plain-b"} {
		s.agent(name)
	}
	s.half(first, 0)
	_, err := s.node.Await(ctx, node.Counts{Begun: 8}) // both slots of each Agent
	require.NoError(t, err)
	third := s.struck(first, "blue-2")
	s.half(second, 1)
	fourth := s.struck(second, "plain-2")
	reach(t, s.admin, third.webhook)
	require.Eventually(t, func() bool { return s.leads(blue) != "" && s.leads(plain) != "" }, patiently, 50*time.Millisecond)
	s.strip("blue-a-1")

	uids := make([]string, 0, 4*perAgent)
	for _, r := range s.runs() {
		uids = append(uids, string(r.UID))
	}
	require.Len(t, uids, 4*perAgent)
	require.NoError(t, s.node.Release(ctx, uids...))
	require.Eventually(t, func() bool { return s.count((*v1alpha1.AgentRun).Ended) == 4*perAgent }, patiently, 100*time.Millisecond, "none is left")

	counts, err := s.node.Counts(ctx)
	require.NoError(t, err)
	assert.Equal(t, []int{4 * perAgent, 0}, []int{counts.Begun, counts.Again}, "none is carried out twice")
	reservers := map[bool]map[string]bool{true: {}, false: {}}
	for _, r := range s.runs() {
		isBlue := strings.HasPrefix(r.Name, "blue")
		assert.Equal(t, v1alpha1.ReasonCompleted, r.Status.Reason, r.Name)
		assert.Zero(t, r.Status.Delivery.Losses, "%s: what was given back before it began is a new attempt and no loss", r.Name)
		assert.Equal(t, isBlue, r.Labels[v1alpha1.LabelShard] == "blue", "%s: %v", r.Name, r.Labels)
		reservers[isBlue][r.Status.Delivery.ReservedBy] = true
	}
	for by := range reservers[true] {
		assert.NotContains(t, reservers[false], by, "a process reserves for its own shard")
	}
	assert.GreaterOrEqual(t, len(reservers[true])+len(reservers[false]), 4, "each shard had two processes at work")
	s.apart()
	s.overlap(third, fourth)
}

// strip takes the label of a shard away from a Pod, so that the other controller sees it, too, and sees it have no run; then gives it back.
func (s *shards) strip(name string) {
	s.t.Helper()
	ctx, p := s.t.Context(), &corev1.Pod{}
	require.NoError(s.t, s.admin.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, p))
	bare := p.DeepCopy()
	delete(bare.Labels, v1alpha1.LabelShard)
	require.NoError(s.t, s.admin.Patch(ctx, bare, client.MergeFrom(p)))
	require.Eventually(s.t, func() bool { // it asks the API server about the run, which is the answer
		return slices.ContainsFunc(server.Audit(s.t, apiserver.ControllerUser), func(r apiserver.Request) bool {
			return strings.HasPrefix(r.Agent, "plain-2/") && r.Verb == "get" && r.Resource == "agentruns" && r.Namespace == s.namespace && r.Name == name
		})
	}, patiently, 100*time.Millisecond)
	labelled := bare.DeepCopy()
	labelled.Labels[v1alpha1.LabelShard] = "blue"
	require.NoError(s.t, s.admin.Patch(ctx, labelled, client.MergeFrom(bare)), "the Pod is there")
}

// overlap: a controller of a wider selector does not lead beside the others, and says so; when they are gone it works for all of theirs.
func (s *shards) overlap(others ...*process) {
	s.t.Helper()
	const wide = "hearth.dev/shard in (blue,green)"
	p := s.start("wide", wide)
	assert.Contains(s.t, s.leads(blue), "_")
	require.Eventually(s.t, func() bool { return strings.Contains(p.scrape(s.t), "hearth_shard_overlaps 2") }, patiently, 50*time.Millisecond)
	assert.Empty(s.t, s.leads(wide))
	for _, o := range others {
		require.NoError(s.t, o.Process.Signal(syscall.SIGTERM))
		require.NoError(s.t, o.Wait())
	}
	require.Eventually(s.t, func() bool { return s.leads(wide) != "" }, patiently, 50*time.Millisecond, "it waits no longer than it must")
	require.Eventually(s.t, func() bool { return unserved.MatchString(p.scrape(s.t)) }, patiently, 50*time.Millisecond,
		"of the default shard there are two Agents at least, and no controller")
	require.NoError(s.t, exposition.Keep("controller-shard", p.scrape(s.t)))
	lease := s.lease(wide)
	require.NoError(s.t, s.admin.Get(s.t.Context(), client.ObjectKeyFromObject(lease), lease))
	assert.Equal(s.t, "hearth.dev/shard in (blue,green)", lease.Annotations[shard.AnnotationSelector])
	require.NoError(s.t, p.Process.Signal(syscall.SIGTERM))
	require.NoError(s.t, p.Wait())
	said := p.stderr.String()
	assert.Contains(s.t, said, "this controller does not lead, because another works for Agents of its selector")
	assert.Contains(s.t, said, "no controller leads for some Agents")
	assert.NotContains(s.t, strings.ToLower(said), "forbidden", "the rights of config/shards are enough")
}

// A controller with a selector and without the rights says so at its start.
func TestAShardWithoutItsRightsSaysSoAtTheStart(t *testing.T) {
	p := start(t, apiserver.Kubeconfig(t, server.As(t, "nobody")), "--agent-selector="+blue)
	require.Error(t, p.Wait())
	assert.Contains(t, p.stderr.String(), "--agent-selector: no right to list the Leases of controllers in hearth-system: expected the component config/shards")
}
