package run

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/pod"
)

// backing is what a run's Pod comes from (R13): the Pod itself, or an object whose own controller makes the Pod. Whose Pod it is,
// Observed.own decides.
type backing interface {
	// read puts what backs the run into o, from the cache, or from the API server if live: only that may call it gone.
	read(ctx context.Context, o *Observed, live bool) error
	// make makes what backs the run, and puts it into o. What already exists is used if it is this run's own. What stands in the way
	// is no error but said in blocked.
	make(ctx context.Context, o *Observed) (blocked string, err error)
	// end deletes it. It does not wait.
	end(ctx context.Context, o Observed) error
	// missing says what has to be installed before anything can be made, "" if nothing.
	missing() string
}

// backing chooses by the run's spec.
func (r *Reconciler) backing(run *v1alpha1.AgentRun) backing {
	if run.Spec.Backend == v1alpha1.BackendSandbox {
		return sandboxBacking{r}
	}
	return podBacking{r}
}

// podBacking: the run's Pod is made directly.
type podBacking struct{ *Reconciler }

func (b podBacking) read(ctx context.Context, o *Observed, live bool) error {
	reader := client.Reader(b.Client)
	if live {
		reader = b.Live
	}
	var p corev1.Pod
	switch err := reader.Get(ctx, client.ObjectKeyFromObject(o.Run), &p); {
	case apierrors.IsNotFound(err):
		o.Pod, o.Gone = nil, live && o.Run.Status.PodUID != ""
	case err != nil:
		return fmt.Errorf("read Pod: %w", err)
	default:
		o.Pod, o.Gone = &p, false
	}
	return nil
}

func (b podBacking) make(ctx context.Context, o *Observed) (blocked string, err error) {
	made := BuildPod(o.Run)
	err = b.Client.Create(ctx, made)
	if err == nil {
		o.Pod = made
		return "", nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return refusedBy("Pod", err)
	}
	var there corev1.Pod
	if err := b.Live.Get(ctx, client.ObjectKeyFromObject(o.Run), &there); err != nil {
		return "", fmt.Errorf("read Pod live: %w", err)
	}
	if !pod.OwnedBy(&there, o.Run.UID) {
		return fmt.Sprintf("Pod %s exists and is not this run's", there.Name), nil
	}
	o.Pod = &there
	return "", nil
}

func (b podBacking) end(ctx context.Context, o Observed) error { return b.deletePod(ctx, o.own()) }

func (podBacking) missing() string { return "" }
