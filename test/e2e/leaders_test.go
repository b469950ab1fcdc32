//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/cluster"
)

// streamEvery is how often a run is made while leaders change.
const streamEvery = 800 * time.Millisecond

// TestLeadersChangeUnderLoad: of two controllers the one that leads goes, by deletion and by SIGKILL, while runs come in all the time.
// While it leaves in peace no run is refused; each run that was stored is recorded once and has one side effect.
// An attempt that the agent had no room for is none that was lost.
func TestLeadersChangeUnderLoad(t *testing.T) {
	r := newRoom(t, "leaders")
	r.agent(reviewer, func(spec *hearthv1.AgentSpec) { spec.Runtime.Delivery.Concurrency = 4 })
	r.waitReady(reviewer)
	s := r.stream()
	for _, deleted := range []bool{true, false} {
		r.waitControllers(2)
		var leader *corev1.Pod
		var holder string
		r.wait("one of the controllers to lead", patiently, func(ctx context.Context) (bool, string, error) {
			leader, holder = r.leader(ctx) // the one before may have left a moment ago
			return leader != nil, holder, nil
		})
		made := s.count()
		s.mayBeRefused(!deleted)
		if deleted {
			require.NoError(t, suite.Client.Delete(t.Context(), leader))
		} else {
			r.kill(leader)
		}
		r.wait("another leader than "+leader.Name, patiently, func(ctx context.Context) (bool, string, error) {
			pod, now := r.leader(ctx) // a killed one that kubelet started again may lead again, as another process
			return pod != nil && now != holder && s.count() > made+2, fmt.Sprintf("%d runs made", s.count()), nil
		})
	}
	r.waitControllers(2)
	names := s.stop()
	require.NotEmpty(t, names)
	for _, name := range names {
		run := r.ended(name, patiently)
		assert.Equal(t, hearthv1.ReasonCompleted, run.Status.Reason, "%s: %s", name, run.Status.Message)
		assert.Zero(t, run.Status.Delivery.Losses, name)
		r.once(name)
	}
	t.Logf("%d runs while two leaders went", len(names))
}

// holder is whose name the lease has.
func (r *room) holder(ctx context.Context) string {
	r.t.Helper()
	var lease coordinationv1.Lease
	require.NoError(r.t, suite.Client.Get(ctx, client.ObjectKey{Namespace: cluster.SystemNamespace, Name: cluster.ControllerAccount}, &lease))
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

// leader is the Pod whose name the lease has, and which of its processes that is.
func (r *room) leader(ctx context.Context) (*corev1.Pod, string) {
	r.t.Helper()
	holder := r.holder(ctx)
	for _, pod := range r.controllers(ctx) {
		if strings.HasPrefix(holder, pod.Name+"_") {
			return &pod, holder
		}
	}
	return nil, ""
}

// waitControllers waits until so many controllers are Ready.
func (r *room) waitControllers(count int) {
	r.t.Helper()
	r.wait(strconv.Itoa(count)+" controllers", patiently, func(ctx context.Context) (bool, string, error) {
		ready := 0
		for _, pod := range r.controllers(ctx) {
			for _, c := range pod.Status.Conditions {
				if c.Type == corev1.PodReady && c.Status == corev1.ConditionStatus(metav1.ConditionTrue) {
					ready++
				}
			}
		}
		return ready >= count, strconv.Itoa(ready) + " ready", nil
	})
}

// stream makes runs all the time.
type stream struct {
	mu      sync.Mutex
	names   []string
	lenient bool
	stop    func() []string
}

func (s *stream) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.names)
}

// mayBeRefused says whether a run may find nobody who admits it: for a moment after a controller was killed.
func (s *stream) mayBeRefused(lenient bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lenient = lenient
}

func (r *room) stream() *stream {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	s, ended := &stream{}, make(chan struct{})
	s.stop = func() []string {
		cancel()
		<-ended
		return s.names
	}
	r.t.Cleanup(func() { _ = s.stop() })
	go func() {
		defer close(ended)
		tick := time.NewTicker(streamEvery)
		defer tick.Stop()
		for i := 0; ; i++ {
			run := r.sparse("run-"+strconv.Itoa(i), reviewer, nil)
			run.Spec.Parameters = map[string]string{"task": tallying(r.tally(run.Name)) + " ;; say: done"}
			err := suite.Client.Create(context.WithoutCancel(ctx), run)
			s.mu.Lock()
			if err == nil {
				s.names = append(s.names, run.Name)
			} else {
				assert.True(r.t, s.lenient, "%s was refused while a controller left in peace: %v", run.Name, err)
			}
			s.mu.Unlock()
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return s
}
