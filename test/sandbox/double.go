// Package sandbox has a small double of the controller of Sandboxes (agents.x-k8s.io/v1beta1), for tests. It does what Hearth
// depends on, as the real one does: see README.md.
package sandbox

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/controller/sandbox"
)

// LabelNameHash is on each Pod and Service of a Sandbox, and what its Service selects by.
const LabelNameHash = "agents.x-k8s.io/sandbox-name-hash"

const reservedPrefix = "agents.x-k8s.io/"

// Double makes a Pod and a headless Service for each Sandbox, and tells of them in its status.
type Double struct {
	// Client reads from the API server itself.
	Client client.Client
	// Fail, if set, is asked at each pass; an error of it is one of the reconciler's own, told as ReconcilerError until the next pass.
	Fail func(key client.ObjectKey) error
	// Collect ends what a deleted Sandbox left, where no garbage collector runs.
	Collect bool
}

// SetupWithManager registers the double. The manager's scheme must have the built-in types and those of controller/sandbox.
func (d *Double) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("sandbox-double").
		For(&sandbox.Sandbox{}).Owns(&corev1.Pod{}).Owns(&corev1.Service{}).
		Complete(d)
}

// Reconcile implements reconcile.Reconciler.
func (d *Double) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var s sandbox.Sandbox
	if err := d.Client.Get(ctx, request.NamespacedName, &s); apierrors.IsNotFound(err) {
		return ctrl.Result{}, d.collect(ctx, request.NamespacedName)
	} else if err != nil {
		return ctrl.Result{}, err
	}
	if s.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	pod, service, failed := d.dependents(ctx, &s)
	if err := d.tell(ctx, &s, pod, service, failed); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	return ctrl.Result{}, failed
}

// dependents are the Sandbox's Pod and Service, made where they are not there. What is not the Sandbox's own is not adopted.
func (d *Double) dependents(ctx context.Context, s *sandbox.Sandbox) (*corev1.Pod, *corev1.Service, error) {
	if d.Fail != nil {
		if err := d.Fail(client.ObjectKeyFromObject(s)); err != nil {
			return nil, nil, err
		}
	}
	pod := podOf(s)
	if err := d.ensure(ctx, s, pod); err != nil {
		return nil, nil, err
	}
	if !ptr.Deref(s.Spec.Service, false) {
		return pod, nil, nil
	}
	service := serviceOf(s)
	if err := d.ensure(ctx, s, service); err != nil {
		return pod, nil, err
	}
	return pod, service, nil
}

// ensure reads the object into o, or creates it as it is.
func (d *Double) ensure(ctx context.Context, s *sandbox.Sandbox, o client.Object) error {
	wanted, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("%T is no object", o)
	}
	err := d.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
	if apierrors.IsNotFound(err) {
		err = d.Client.Create(ctx, wanted)
		if err == nil {
			return d.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
		}
	}
	if err != nil {
		return err
	}
	owner := metav1.GetControllerOf(o)
	switch {
	case owner == nil:
		return fmt.Errorf("cannot adopt unowned object %q", o.GetName())
	case owner.UID != s.UID:
		return fmt.Errorf("%q is owned by %s/%s (UID: %s), not by sandbox %q", o.GetName(), owner.Kind, owner.Name, owner.UID, s.Name)
	default:
		return nil
	}
}

func podOf(s *sandbox.Sandbox) *corev1.Pod {
	template := s.Spec.PodTemplate
	p := &corev1.Pod{ObjectMeta: dependent(s), Spec: *template.Spec.DeepCopy()}
	maps.Copy(p.Labels, unreserved(template.Metadata.Labels))
	p.Annotations = unreserved(template.Metadata.Annotations)
	return p
}

func serviceOf(s *sandbox.Sandbox) *corev1.Service {
	service := &corev1.Service{
		ObjectMeta: dependent(s),
		Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{LabelNameHash: nameHash(s.Name)}},
	}
	for _, c := range s.Spec.PodTemplate.Spec.Containers {
		for _, p := range c.Ports {
			service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: p.Name, Port: p.ContainerPort, Protocol: p.Protocol})
		}
	}
	return service
}

func dependent(s *sandbox.Sandbox) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: s.Namespace, Name: s.Name, Labels: map[string]string{LabelNameHash: nameHash(s.Name)},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s, sandbox.GroupVersion.WithKind(sandbox.Kind))},
	}
}

// unreserved leaves out the keys that a template may not set.
func unreserved(of map[string]string) map[string]string {
	of = maps.Clone(of)
	maps.DeleteFunc(of, func(key, _ string) bool { return strings.HasPrefix(key, reservedPrefix) })
	return of
}

func nameHash(name string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return fmt.Sprintf("%08x", h.Sum32())
}

// tell writes the status, as a patch of it alone, if it differs.
func (d *Double) tell(ctx context.Context, s *sandbox.Sandbox, pod *corev1.Pod, service *corev1.Service, failed error) error {
	before := s.DeepCopy()
	s.Status.PodIPs = nil
	if pod != nil {
		for _, ip := range pod.Status.PodIPs {
			s.Status.PodIPs = append(s.Status.PodIPs, ip.IP)
		}
	}
	wanted := Conditions(pod, service, failed)
	for _, c := range wanted {
		c.ObservedGeneration = s.Generation
		meta.SetStatusCondition(&s.Status.Conditions, c)
	}
	if meta.FindStatusCondition(wanted, Finished) == nil {
		meta.RemoveStatusCondition(&s.Status.Conditions, Finished)
	}
	if equality.Semantic.DeepEqual(before.Status, s.Status) {
		return nil
	}
	return d.Client.Status().Patch(ctx, s, client.MergeFrom(before))
}

// collect plays the garbage collector: what a Sandbox of that name controlled that is not there any more is deleted.
func (d *Double) collect(ctx context.Context, key client.ObjectKey) error {
	if !d.Collect {
		return nil
	}
	for _, o := range []client.Object{&corev1.Pod{}, &corev1.Service{}} {
		if err := d.Client.Get(ctx, key, o); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return err
		}
		owner := metav1.GetControllerOf(o)
		if owner == nil || owner.Kind != sandbox.Kind || o.GetDeletionTimestamp() != nil {
			continue
		}
		err := d.Client.Delete(ctx, o, client.Preconditions{UID: ptr.To[types.UID](o.GetUID())})
		if client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}
