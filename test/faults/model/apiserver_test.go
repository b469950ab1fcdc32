package model

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// kube is an API server as one controller's reconciler of Agents meets it: it reads one copy of the objects and writes to the true ones.
type kube struct {
	client.Client
	w    *world
	c    *controller
	from *objects
}

var (
	resource   = schema.GroupResource{Group: "hearth.dev", Resource: "agentruns"}
	errForeign = errors.New("the model has no such object")
	// errInjected is an API server that fails; what was asked may have been done.
	errInjected = errors.New("the API server failed")
)

func (k *kube) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	switch into := into.(type) {
	case *hearthv1.Agent:
		if a := k.from.agents[key.Name]; a != nil {
			a.DeepCopyInto(into)
			return nil
		}
	case *hearthv1.AgentRun:
		if r := k.from.standing[key.Name]; r != nil {
			r.DeepCopyInto(into)
			return nil
		}
	case *corev1.Pod:
		if p, ok := k.from.pods[key.Name]; ok {
			into.Name, into.UID = key.Name, types.UID(p.uid)
			return nil
		}
	default:
		return errForeign
	}
	return apierrors.NewNotFound(resource, key.Name)
}

// List lists standing runs. All that it is asked for are those of one Agent, by its name, which the caller passed to observed.
func (k *kube) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	list, ok := into.(*hearthv1.AgentRunList)
	if !ok {
		return errForeign
	}
	for _, name := range sorted(k.from.standing) {
		if r := k.from.standing[name]; r.Labels[hearthv1.LabelAgent] == k.c.asked {
			list.Items = append(list.Items, *r.DeepCopy())
		}
	}
	return nil
}

// write is around each write: before it anything may happen, and its answer may be an error, whether or not it was done.
func (k *kube) write(do func() error) error {
	k.w.interleave()
	if k.w.mishap(3) {
		return errInjected
	}
	if err := do(); err != nil {
		return err
	}
	if k.w.mishap(3) {
		return errInjected
	}
	return nil
}

func (k *kube) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	run, ok := o.(*hearthv1.AgentRun)
	if !ok {
		return errForeign
	}
	return k.write(func() error {
		if k.w.api.standing[run.Name] != nil {
			return apierrors.NewAlreadyExists(resource, run.Name)
		}
		run.UID, run.ResourceVersion, run.CreationTimestamp = types.UID(k.w.id("standing")), k.w.revision(), metav1.NewTime(k.w.now)
		k.w.api.standing[run.Name] = run.DeepCopy()
		k.w.tell("%s makes standing run %s", k.c.name, run.Name)
		k.w.checkStanding(k.c, nil, run)
		return nil
	})
}

func (k *kube) Delete(_ context.Context, o client.Object, options ...client.DeleteOption) error {
	var d client.DeleteOptions
	d.ApplyOptions(options)
	return k.write(func() error {
		is := k.w.api.standing[o.GetName()]
		switch {
		case is == nil:
			return apierrors.NewNotFound(resource, o.GetName())
		case d.Preconditions == nil, *d.Preconditions.UID != is.UID, *d.Preconditions.ResourceVersion != is.ResourceVersion:
			return apierrors.NewConflict(resource, o.GetName(), errors.New("precondition"))
		}
		delete(k.w.api.standing, o.GetName())
		k.w.tell("%s deletes standing run %s", k.c.name, is.Name)
		k.w.checkStanding(k.c, is, nil)
		return nil
	})
}

func (k *kube) Status() client.SubResourceWriter { return &kubeStatus{k: k} }

type kubeStatus struct {
	client.SubResourceWriter
	k *kube
}

func (s *kubeStatus) Update(_ context.Context, o client.Object, _ ...client.SubResourceUpdateOption) error {
	w := s.k.w
	return s.k.write(func() error {
		switch o := o.(type) {
		case *hearthv1.Agent:
			is := w.api.agents[o.Name]
			if is == nil || is.UID != o.UID {
				return apierrors.NewNotFound(resource, o.Name)
			}
			if o.ResourceVersion != is.ResourceVersion {
				return apierrors.NewConflict(resource, o.Name, errors.New("version"))
			}
			if o.Status.Recasts > is.Status.Recasts {
				w.coverage["recast"]++
			}
			next := is.DeepCopy()
			next.Status, next.ResourceVersion = *o.Status.DeepCopy(), w.revision()
			w.api.agents[o.Name] = next
			return nil
		case *hearthv1.AgentRun:
			is := w.api.standing[o.Name]
			if is == nil || is.UID != o.UID {
				return apierrors.NewNotFound(resource, o.Name)
			}
			if o.ResourceVersion != is.ResourceVersion {
				return apierrors.NewConflict(resource, o.Name, errors.New("version"))
			}
			next := is.DeepCopy()
			next.Status, next.ResourceVersion = *o.Status.DeepCopy(), w.revision()
			w.api.standing[o.Name] = next
			w.tell("%s writes standing run %s, cordoned: %t", s.k.c.name, o.Name, next.Status.CordonedAt != nil)
			w.checkStanding(s.k.c, is, next)
			return nil
		default:
			return errForeign
		}
	})
}

func (w *world) revision() string { return strconv.Itoa(w.bump()) }

// injected tells whether a pass ended with an error that the world made; any other is the product's.
func injected(err error) error {
	if err == nil || errors.Is(err, errInjected) {
		return nil
	}
	return fmt.Errorf("not of this world: %w", err)
}
