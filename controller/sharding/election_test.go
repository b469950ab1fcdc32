package sharding

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"

	"github.com/hearthdev/hearth/api/shard"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// store has Leases as the API server has them.
type store struct {
	coordinationv1client.LeaseInterface
	mu     sync.Mutex
	leases map[string]coordinationv1.Lease
	broken error
}

func (s *store) hold(of shard.Set, holder string, renewed time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leases == nil {
		s.leases = map[string]coordinationv1.Lease{}
	}
	l := coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: of.Lease(), Annotations: map[string]string{shard.AnnotationSelector: of.String()}}}
	l.Spec.HolderIdentity, l.Spec.RenewTime = ptr.To(holder), ptr.To(metav1.NewMicroTime(renewed))
	s.leases[l.Name] = l
}

func (s *store) List(context.Context, metav1.ListOptions) (*coordinationv1.LeaseList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &coordinationv1.LeaseList{Items: slices.Collect(maps.Values(s.leases))}, s.broken
}

func (s *store) Get(_ context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, there := s.leases[name]
	if !there {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, name)
	}
	return &l, nil
}

func (s *store) Create(_ context.Context, l *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken == nil {
		s.leases[l.Name] = *l
	}
	return l, s.broken
}

func (s *store) Update(ctx context.Context, l *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return s.Create(ctx, l, metav1.CreateOptions{})
}

func election(s *store, own shard.Set, ticks <-chan time.Time) (*Election, *bytes.Buffer) {
	var said bytes.Buffer
	return &Election{Own: own, Identity: "me_1", Leases: s, Now: func() time.Time { return now }, After: func(time.Duration) <-chan time.Time { return ticks },
		Log: slog.New(slog.NewTextHandler(&said, nil))}, &said
}

// come lets time pass until there is an answer.
func come(ticks chan<- time.Time, read <-chan error) error {
	for {
		select {
		case ticks <- now:
		case err := <-read:
			return err
		}
	}
}

// waits lets time pass once for who must wait for it.
func waits(t *testing.T, ticks chan<- time.Time, read <-chan error) {
	t.Helper()
	select {
	case ticks <- now:
	case err := <-read:
		require.FailNow(t, "it did not wait", "%v", err)
	}
}

// SPEC.md, Shards, Overlap: nobody leads while another leads for some of the same Agents; the Lease says whose it is.
func TestNobodyLeadsBesideAnotherOfTheSameAgents(t *testing.T) {
	for name, other := range map[string]shard.Set{"some": shard.Of("a", "b"), "all but": shard.Of("c").Without(), "everything": shard.All()} {
		t.Run(name, func(t *testing.T) {
			ctx, ticks, s := t.Context(), make(chan time.Time), &store{}
			s.hold(other, "another-pod_1", now)
			e, said := election(s, shard.Of("a"), ticks)
			lock := e.Lock("hearth-system")
			read := make(chan error)
			get := func() {
				_, _, err := lock.Get(ctx)
				read <- err
			}
			go get()
			waits(t, ticks, read)
			waits(t, ticks, read) // it has looked twice
			s.hold(other, "", now)
			require.True(t, apierrors.IsNotFound(come(ticks, read)), "now it looks for its own Lease")
			assert.Equal(t, 1, strings.Count(said.String(), "does not lead"), "once, not at each look: %s", said)
			assert.Contains(t, said.String(), "held by another-pod (")
			assert.Contains(t, said.String(), other.Lease())

			require.NoError(t, lock.Create(ctx, resourcelock.LeaderElectionRecord{HolderIdentity: "me_1"}))
			assert.Equal(t, "hearth.dev/shard in (a)", s.leases[shard.Of("a").Lease()].Annotations[shard.AnnotationSelector])
			s.hold(other, "another-pod_1", now)
			go get()
			select {
			case err := <-read:
				require.NoError(t, err)
			case ticks <- now:
				require.FailNow(t, "who leads renews its Lease without waiting; what comes of an overlap is for Watch")
			}
			require.NoError(t, lock.Update(ctx, resourcelock.LeaderElectionRecord{HolderIdentity: ""}))
			go get()
			waits(t, ticks, read) // who has given it up waits again
			s.hold(other, "another-pod_1", now.Add(-2*shard.Silent))
			require.NoError(t, come(ticks, read), "who does not renew its Lease is gone")
		})
	}
}

func TestOthersOfOtherAgentsAreNotWaitedFor(t *testing.T) {
	s := &store{}
	s.hold(shard.Of("b"), "b_1", now)
	s.hold(shard.Default(), "d_1", now)
	s.hold(shard.Of("a"), "replica_1", now)
	e, said := election(s, shard.Of("a"), nil)
	record, _, err := e.Lock("hearth-system").Get(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "replica_1", record.HolderIdentity, "among replicas the Lease itself decides")
	assert.Empty(t, said.String())
}

func TestTheWaitEndsWithItsContextAndWithWhatCannotBeRead(t *testing.T) {
	s := &store{}
	s.hold(shard.All(), "old_1", now)
	e, _ := election(s, shard.Of("a"), nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := e.Lock("hearth-system").Get(ctx)
	require.ErrorIs(t, err, context.Canceled)
	s.broken = assert.AnError
	_, _, err = e.Lock("hearth-system").Get(t.Context())
	require.ErrorIs(t, err, assert.AnError, "who does not know the others does not lead")
	require.ErrorIs(t, e.Lock("hearth-system").Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "me_1"}), assert.AnError)
	assert.False(t, e.leads.Load())
}
