package run

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/sandbox"
)

// Sandboxes is where Sandboxes are read, whether the API server has them or not.
type Sandboxes interface {
	// Absent: the API server has no such kind, as far as is known.
	Absent() bool
	// Get may be behind; Live asks the API server. Both give nil where there is none, and sandbox.ErrNoKind where there is no such kind.
	Get(ctx context.Context, key client.ObjectKey) (*sandbox.Sandbox, error)
	Live(ctx context.Context, key client.ObjectKey) (*sandbox.Sandbox, error)
	// Source wakes the runs whose Sandboxes change.
	Source() source.Source
}

// sandboxBacking: the run has a Sandbox, whose own controller makes the Pod.
type sandboxBacking struct{ *Reconciler }

func (b sandboxBacking) missing() string {
	if b.Sandboxes == nil || b.Sandboxes.Absent() {
		return sandbox.Missing
	}
	return ""
}

func (b sandboxBacking) read(ctx context.Context, o *Observed, live bool) error {
	key := client.ObjectKeyFromObject(o.Run)
	s, err := b.sandbox(ctx, key, live)
	if err != nil {
		return err
	}
	p, err := b.pod(ctx, key, live)
	if err != nil {
		return err
	}
	o.Sandbox, o.Pod = s, p
	phase, _ := sandbox.Finished(o.ours())
	had := o.Run.Status.PodUID != "" || o.Run.Status.PodName != "" && s == nil || phase != ""
	o.Gone = live && p == nil && had
	return nil
}

func (b sandboxBacking) sandbox(ctx context.Context, key client.ObjectKey, live bool) (s *sandbox.Sandbox, err error) {
	switch {
	case !live:
		return b.cachedSandbox(ctx, key)
	case b.Sandboxes == nil:
		return nil, nil
	}
	s, err = b.Sandboxes.Live(ctx, key)
	if errors.Is(err, sandbox.ErrNoKind) {
		return nil, nil
	}
	return s, err
}

func (b sandboxBacking) pod(ctx context.Context, key client.ObjectKey, live bool) (*corev1.Pod, error) {
	reader := client.Reader(b.Client)
	if live {
		reader = b.Live
	}
	var p corev1.Pod
	switch err := reader.Get(ctx, key, &p); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read Pod: %w", err)
	default:
		return &p, nil
	}
}

// prepare makes nothing: the Sandbox's own controller makes its Service.
func (sandboxBacking) prepare(context.Context, *Observed) (obstacle, error) { return obstacle{}, nil }

// make does not make a Sandbox where a Pod of its name is already: a Sandbox could adopt it.
func (b sandboxBacking) make(ctx context.Context, o *Observed) (obstacle, error) {
	key := client.ObjectKeyFromObject(o.Run)
	there, err := b.Sandboxes.Live(ctx, key)
	if errors.Is(err, sandbox.ErrNoKind) {
		return obstacle{why: sandbox.Missing}, nil
	} else if err != nil {
		return obstacle{}, err
	}
	if there == nil {
		if p, err := b.pod(ctx, key, true); err != nil || p != nil {
			return obstacle{why: fmt.Sprintf("Pod %s exists and is not this run's", key.Name)}, err
		}
		there = sandbox.Build(o.pod())
		switch err := b.Client.Create(ctx, there); {
		case apierrors.IsAlreadyExists(err):
			return obstacle{}, errStale
		case errors.Is(sandbox.Told(err), sandbox.ErrNoKind):
			return obstacle{why: sandbox.Missing}, nil
		case err != nil:
			return refusedBy("Sandbox", err)
		}
	}
	if !sandbox.OwnedBy(there, o.Run.UID) {
		return obstacle{why: fmt.Sprintf("Sandbox %s exists and is not this run's: delete it", there.Name)}, nil
	}
	o.Sandbox = there
	return obstacle{}, nil
}

// end deletes the Sandbox, and the Pod only when the API server has no Sandbox any more, for until then another Pod would come. Of a
// kind that it does not serve it cannot say so: the Pod is left to the garbage collector.
func (b sandboxBacking) end(ctx context.Context, o Observed) error {
	if b.Sandboxes == nil {
		return nil
	}
	s, err := b.Sandboxes.Live(ctx, client.ObjectKeyFromObject(o.Run))
	switch own := o.own(); {
	case errors.Is(err, sandbox.ErrNoKind):
		return nil
	case err != nil:
		return err
	case sandbox.OwnedBy(s, o.Run.UID):
		return b.deleteSandbox(ctx, s)
	case own != nil:
		return b.deletePod(ctx, own)
	default:
		return nil
	}
}

func (r *Reconciler) deleteSandbox(ctx context.Context, s *sandbox.Sandbox) error {
	if s.DeletionTimestamp != nil {
		return nil
	}
	err := r.Client.Delete(ctx, s, client.Preconditions{UID: &s.UID})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete Sandbox: %w", err)
	}
	return nil
}

// cachedSandbox is the Sandbox of that name, nil where none is known.
func (r *Reconciler) cachedSandbox(ctx context.Context, key client.ObjectKey) (*sandbox.Sandbox, error) {
	if r.Sandboxes == nil {
		return nil, nil
	}
	s, err := r.Sandboxes.Get(ctx, key)
	if errors.Is(err, sandbox.ErrNoKind) {
		return nil, nil
	}
	return s, err
}

// ofAnother tells whether a run of another UID than this one controls the object.
func ofAnother(o client.Object, run types.UID) bool {
	owner := metav1.GetControllerOf(o)
	return owner != nil && owner.Kind == "AgentRun" && owner.APIVersion == v1alpha1.GroupVersion.String() && owner.UID != run
}
