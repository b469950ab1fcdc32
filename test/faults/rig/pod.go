package rig

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/internal/crashpoint"
	"github.com/hearthdev/hearth/test/faults/netfault"
)

// Pod is a Pod of the World, and the process of its container named agent.
type Pod struct {
	Name string
	UID  types.UID
	// IP is the Pod's address. Its port 4000 is the harness's own; deliveries come to the Proxy, which passes them on to the harness.
	IP    string
	Proxy *netfault.Proxy

	node   *node
	order  int
	dir    string // of all that belongs to the Pod
	log    *output
	points holds
	woken  chan struct{}

	mu       sync.Mutex
	object   *corev1.Pod
	process  *process
	counted  bool      // the process's end was seen
	again    time.Time // when it may be started again
	since    time.Time // when it was started
	restarts int32
	boots    int
	asked    time.Time // when it was told to end
	stayDown bool
	keep     bool // the process outlives its object
	evicted  bool
	ready    bool
	gone     bool
	agents   map[int]int // living agents' process numbers, and inside the container
	ends     []agentEnd
	told     string // the status that was written last
}

func newPod(n *node, object *corev1.Pod, order int) *Pod {
	return &Pod{object: object, Name: object.Name, UID: object.UID, node: n, order: order, dir: filepath.Join(n.world.dir, "p"+strconv.Itoa(order)),
		log: &output{}, woken: make(chan struct{}, 1), agents: map[int]int{}}
}

// Object is the Pod as the node saw it last.
func (p *Pod) Object() *corev1.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.object.DeepCopy()
}

// Log is what its harnesses said.
func (p *Pod) Log() string { return p.log.String() }

// Ready tells whether the API server was told that it is ready.
func (p *Pod) Ready() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ready && !p.gone && p.object.DeletionTimestamp == nil
}

// Gone tells whether the Pod's object is gone.
func (p *Pod) Gone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gone
}

// PID is the harness's process number, 0 while there is none.
func (p *Pod) PID() int {
	if x := p.running(); x != nil {
		return x.pid()
	}
	return 0
}

// Restarts is how often its container was started again.
func (p *Pod) Restarts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int(p.restarts)
}

// running is the process if it lives.
func (p *Pod) running() *process {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil || p.process.over() {
		return nil
	}
	return p.process
}

// Kill is SIGKILL for the harness and all that it started, as when a container runs out of memory. The node starts it again.
func (p *Pod) Kill() {
	if x := p.running(); x != nil {
		x.kill()
	}
	p.wake()
}

// StayDown is Kill, and the node does not start it again before Up.
func (p *Pod) StayDown() {
	p.mu.Lock()
	p.stayDown = true
	p.mu.Unlock()
	p.Kill()
}

// Up ends StayDown.
func (p *Pod) Up() {
	p.mu.Lock()
	p.stayDown = false
	p.mu.Unlock()
	p.wake()
}

// LoseJournal takes the data directory's content away; the harness must be down.
func (p *Pod) LoseJournal() {
	t := p.node.world.t
	t.Helper()
	require.Nil(t, p.running(), "a journal in use cannot be lost")
	lost := p.Data() + "-lost" + strconv.Itoa(p.boots)
	require.NoError(t, os.Rename(p.Data(), lost))
	require.NoError(t, os.Mkdir(p.Data(), 0o700))
}

// Data is the data directory: journal, transcripts, agents' homes.
func (p *Pod) Data() string { return filepath.Join(p.dir, "data") }

// Stop stops the harness's time with SIGSTOP, and not its agent's; Cont lets it go on.
func (p *Pod) Stop() {
	if x := p.running(); x != nil {
		x.signal(syscall.SIGSTOP)
	}
}

// Cont ends a Stop.
func (p *Pod) Cont() {
	if x := p.running(); x != nil {
		x.signal(syscall.SIGCONT)
	}
}

// Agents are the process numbers of the harness's agents.
func (p *Pod) Agents() []int {
	var pids []int
	threads, _ := filepath.Glob("/proc/" + strconv.Itoa(p.PID()) + "/task/*/children") // the pattern is valid
	for _, name := range threads {
		text, err := os.ReadFile(name) //nolint:gosec // of /proc
		if err != nil {
			continue
		}
		for field := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// KillAgent is SIGKILL for the harness's agents.
func (p *Pod) KillAgent() {
	for _, pid := range p.Agents() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// Hold stops the harness when it reaches the point next.
func (p *Pod) Hold(point crashpoint.Point) *Hold { return p.points.hold(p.node.world.t, point) }

// Reached is how often its harnesses came to a point.
func (p *Pod) Reached(point crashpoint.Point) int { return p.points.count(point) }

// Delete deletes the Pod with a grace period; the node ends the harness and then the object.
func (p *Pod) Delete(grace time.Duration) {
	w := p.node.world
	w.t.Helper()
	require.NoError(w.t, w.Admin.Delete(w.ctx, p.named(), client.GracePeriodSeconds(grace/time.Second), client.Preconditions{UID: &p.UID}))
}

// ForceDelete takes the object away at once. The process ends with it, or goes on if it is kept, as on a node that is cut off.
func (p *Pod) ForceDelete(keep bool) {
	w := p.node.world
	w.t.Helper()
	p.mu.Lock()
	p.keep = keep
	p.mu.Unlock()
	require.NoError(w.t, w.Admin.Delete(w.ctx, p.named(), client.GracePeriodSeconds(0), client.Preconditions{UID: &p.UID}))
	w.Eventually("the end of the object of Pod "+p.Name, p.Gone)
}

// Evict ends the container and leaves the Pod Failed, as a node without memory does.
func (p *Pod) Evict() {
	w := p.node.world
	w.t.Helper()
	p.mu.Lock()
	p.evicted = true
	p.mu.Unlock()
	p.Kill()
	w.Eventually("the eviction of Pod "+p.Name, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.gone || p.object.Status.Phase == corev1.PodFailed
	})
}

// agent is the name of the Agent whose Pod it is.
func (p *Pod) agent() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.object.Labels[hearthv1.LabelAgent]
}

// wasAsked tells whether the harness was told to end.
func (p *Pod) wasAsked() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.asked.IsZero()
}

func (p *Pod) named() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.node.world.Namespace, Name: p.Name}}
}

func (p *Pod) saw(object *corev1.Pod) {
	p.mu.Lock()
	p.object = object
	p.mu.Unlock()
	p.wake()
}

func (p *Pod) left() {
	p.mu.Lock()
	p.gone = true
	p.mu.Unlock()
	p.wake()
}

func (p *Pod) wake() {
	select {
	case p.woken <- struct{}{}:
	default:
	}
}

// end ends the process, for good.
func (p *Pod) end() {
	if x := p.running(); x != nil {
		x.kill()
	}
	if p.Proxy != nil {
		p.Proxy.Close()
	}
}

// live does what the Pod needs, until its object is gone or the World ends.
func (p *Pod) live() {
	ctx := p.node.world.ctx
	timer := time.NewTicker(every)
	defer timer.Stop()
	for ctx.Err() == nil {
		p.track()
		if err := p.step(ctx); err != nil && ctx.Err() == nil {
			_, _ = p.log.Write([]byte("node: " + err.Error() + "\n"))
		}
		if p.Gone() {
			return
		}
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-p.woken:
		}
	}
}

// every is how often the node looks at a Pod; a restarted container waits for backoff.
const (
	every   = 100 * time.Millisecond
	backoff = 300 * time.Millisecond
)

// step does the next thing that the Pod needs.
func (p *Pod) step(ctx context.Context) error {
	p.mu.Lock()
	object, gone, keep, evicted := p.object, p.gone, p.keep, p.evicted
	p.mu.Unlock()
	switch {
	case gone:
		if !keep {
			p.end()
		}
		return nil
	case object.Spec.NodeName == "":
		return p.node.bind(ctx, object)
	case object.DeletionTimestamp != nil:
		return p.terminate(ctx, object)
	case evicted:
		return p.tell(ctx, &corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on resource: memory."})
	}
	return p.stand(ctx, object)
}

// terminate is how a container ends: SIGTERM, the grace period, SIGKILL, and then the object goes.
func (p *Pod) terminate(ctx context.Context, object *corev1.Pod) error {
	x := p.running()
	if x != nil {
		if p.asked.IsZero() {
			p.mu.Lock()
			p.asked = time.Now()
			p.mu.Unlock()
			x.signal(syscall.SIGTERM)
		}
		grace := time.Duration(ptr.Deref(object.DeletionGracePeriodSeconds, 0)) * time.Second
		if time.Since(p.asked) < grace {
			return p.tell(ctx, p.status(object, p.probe(ctx)))
		}
		x.kill()
	}
	return client.IgnoreNotFound(p.node.admin.Delete(ctx, p.named(), client.GracePeriodSeconds(0), client.Preconditions{UID: &p.UID}))
}
