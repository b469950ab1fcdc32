package run

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/pod"
)

// backing is what a run's Pod comes from (R13): the Pod itself, or an object whose own controller makes the Pod. Whose Pod it is,
// Observed.own decides.
type backing interface {
	// read puts what backs the run into o, from the cache, or from the API server if live: only that may call it gone.
	read(ctx context.Context, o *Observed, live bool) error
	// prepare makes what has to be there beside it. It is called before make, and at each look while the Pod lives.
	prepare(ctx context.Context, o *Observed) (obstacle, error)
	// make makes what backs the run, and puts it into o. What already exists is used if it is this run's own.
	make(ctx context.Context, o *Observed) (obstacle, error)
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

// prepare makes the Service of the run's name, again if somebody deleted it.
func (b podBacking) prepare(ctx context.Context, o *Observed) (obstacle, error) {
	key := client.ObjectKeyFromObject(o.Run)
	var there corev1.Service
	err := b.Client.Get(ctx, key, &there)
	if err == nil && ownedBy(&there, o.Run) {
		return obstacle{}, nil
	}
	if client.IgnoreNotFound(err) != nil {
		return obstacle{}, fmt.Errorf("read Service: %w", err)
	}
	err = b.Client.Create(ctx, BuildService(o.Run))
	if !apierrors.IsAlreadyExists(err) {
		return refusedBy("Service", err)
	}
	there = corev1.Service{}
	if err := b.Live.Get(ctx, key, &there); err != nil {
		return obstacle{}, fmt.Errorf("read Service live: %w", err)
	}
	if !ownedBy(&there, o.Run) {
		return obstacle{why: fmt.Sprintf("Service %s exists and is not this run's: delete it", there.Name)}, nil
	}
	return obstacle{}, nil
}

func (b podBacking) make(ctx context.Context, o *Observed) (obstacle, error) {
	made := o.pod()
	err := b.Client.Create(ctx, made)
	if err == nil {
		o.Pod = made
		return obstacle{}, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return refusedBy("Pod", err)
	}
	var there corev1.Pod
	if err := b.Live.Get(ctx, client.ObjectKeyFromObject(o.Run), &there); apierrors.IsNotFound(err) {
		return obstacle{}, errStale
	} else if err != nil {
		return obstacle{}, fmt.Errorf("read Pod live: %w", err)
	}
	if !pod.OwnedBy(&there, o.Run.UID) {
		return obstacle{why: fmt.Sprintf("Pod %s exists and is not this run's", there.Name)}, nil
	}
	o.Pod = &there
	return obstacle{}, nil
}

// end deletes the run's own Pod and no other of its name. One that has not started in time is deleted only as it was seen: if it starts
// at this moment it goes on.
func (b podBacking) end(ctx context.Context, o Observed) error {
	own := o.own()
	only := client.Preconditions{UID: &own.UID}
	if !o.Run.Ended() && !o.stopped() && !o.begun(own) {
		only.ResourceVersion = &own.ResourceVersion
	}
	return b.deletePodIf(ctx, own, only)
}

func (podBacking) missing() string { return "" }

func ownedBy(object metav1.Object, run *v1alpha1.AgentRun) bool {
	controller := metav1.GetControllerOfNoCopy(object)
	return controller != nil && controller.UID == run.UID
}
