package sharding

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"

	"github.com/hearthdev/hearth/api/shard"
	"github.com/hearthdev/hearth/controller/metrics"
)

const (
	// leaseTimeout bounds one request about Leases.
	leaseTimeout = 5 * time.Second
	// lookEvery is how often who waits for others looks whether they are gone: as often as who waits for the Lease itself.
	lookEvery = 2 * time.Second

	aloneAgain = "nobody else works for Agents of this controller any more"
)

// Election is how the replicas of one shard choose who leads: by a Lease of the shard's own, whose annotation says which Agents that is.
// Nobody takes it while another's Lease is held for some of the same Agents: the old controller of a change under way, or one without a
// selector. So a run has two controllers at no time, but for the moment in which both begin; Watch ends that.
type Election struct {
	// Own are the shards of this process, Identity its name among the replicas.
	Own      shard.Set
	Identity string
	Leases   coordinationv1client.LeaseInterface
	Now      func() time.Time
	After    func(time.Duration) <-chan time.Time
	Log      *slog.Logger

	leads atomic.Bool
	told  string // what was said last of who is waited for
}

// NewElection makes the client that it needs.
func NewElection(config *rest.Config, namespace string, e *Election) (*Election, error) {
	config = rest.CopyConfig(config)
	config.Timeout = leaseTimeout
	leases, err := coordinationv1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	e.Leases = leases.Leases(namespace)
	return e, nil
}

// Lock is for a manager's election.
func (e *Election) Lock(namespace string) resourcelock.Interface {
	return &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: e.Own.Lease()}, Client: getter{e},
		LockConfig: resourcelock.ResourceLockConfig{Identity: e.Identity},
	}
}

// Holdings are the Leases of all controllers in the namespace.
func (e *Election) Holdings(ctx context.Context) ([]shard.Holding, error) {
	list, err := e.Leases.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the Leases of controllers: %w", err)
	}
	return shard.Read(list.Items, e.Now()), nil
}

// alone waits until nobody else works for Agents of this shard.
func (e *Election) alone(ctx context.Context) error {
	for {
		all, err := e.Holdings(ctx)
		if err != nil {
			return err
		}
		others := shard.Overlapping(e.Own, all)
		metrics.ShardOverlaps(len(others))
		if who := words(others); who != e.told {
			e.told = who
			if who == "" {
				e.Log.Info("shards: "+aloneAgain, "selector", e.Own.String())
			} else {
				e.Log.Warn("shards: this controller does not lead, because another works for Agents of its selector: change the selector of one of them", "selector", e.Own.String(), "others", who)
			}
		}
		if len(others) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for other controllers: %w", ctx.Err())
		case <-e.After(lookEvery):
		}
	}
}

// words name the Leases of others, with their holders and selectors.
func words(others []shard.Holding) string {
	said := make([]string, 0, len(others))
	for _, h := range others {
		holder, _, _ := strings.Cut(h.Holder, "_")
		said = append(said, fmt.Sprintf("%s, held by %s (%s)", h.Lease, holder, h.Set.Words()))
	}
	slices.Sort(said)
	return strings.Join(said, "; ")
}

// getter is the client of a LeaseLock: it waits before the Lease is read for the first time, and marks what is written.
type getter struct{ election *Election }

func (g getter) Leases(string) coordinationv1client.LeaseInterface {
	return leases{g.election.Leases, g.election}
}

type leases struct {
	coordinationv1client.LeaseInterface
	election *Election
}

func (l leases) Get(ctx context.Context, name string, o metav1.GetOptions) (*coordinationv1.Lease, error) {
	if !l.election.leads.Load() {
		if err := l.election.alone(ctx); err != nil {
			return nil, err
		}
	}
	return l.LeaseInterface.Get(ctx, name, o) //nolint:wrapcheck // it is a client, too
}

func (l leases) Create(ctx context.Context, lease *coordinationv1.Lease, o metav1.CreateOptions) (*coordinationv1.Lease, error) {
	written, err := l.LeaseInterface.Create(ctx, l.marked(lease), o)
	return l.noted(written, err)
}

func (l leases) Update(ctx context.Context, lease *coordinationv1.Lease, o metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	written, err := l.LeaseInterface.Update(ctx, l.marked(lease), o)
	return l.noted(written, err)
}

func (l leases) marked(lease *coordinationv1.Lease) *coordinationv1.Lease {
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, shard.AnnotationSelector, l.election.Own.String())
	return lease
}

func (l leases) noted(lease *coordinationv1.Lease, err error) (*coordinationv1.Lease, error) {
	if err == nil {
		l.election.leads.Store(ptr.Deref(lease.Spec.HolderIdentity, "") == l.election.Identity)
	}
	return lease, err
}
