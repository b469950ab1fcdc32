package deliver

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/challenge"
	"github.com/hearthdev/hearth/controller/metrics"
	"github.com/hearthdev/hearth/controller/pod"
	"github.com/hearthdev/hearth/delivery"
	"github.com/hearthdev/hearth/delivery/client"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// podReconciler keeps one Link per Pod of a standing run that takes deliveries, for the Pod's whole life.
type podReconciler struct{ *courier }

// lookAgain is when a Pod that the cache has lost and the API server has not is read again (fault row 51).
const lookAgain = delivery.PodReadEvery

// Reconcile implements reconcile.Reconciler.
func (p podReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var cached corev1.Pod
	err := p.kube.Get(ctx, req.NamespacedName, &cached)
	if err != nil && !apierrors.IsNotFound(err) {
		return ctrl.Result{}, fmt.Errorf("read Pod %s: %w", req.Name, err)
	}
	alive := err == nil && !pod.Ended(&cached)
	lost, err := p.closeOthers(ctx, req.NamespacedName, cached.UID, alive)
	if err != nil {
		return ctrl.Result{}, err
	}
	if alive {
		if err := p.openFor(ctx, &cached); err != nil {
			return ctrl.Result{}, err
		}
	}
	if lost {
		return ctrl.Result{RequeueAfter: lookAgain}, nil
	}
	return ctrl.Result{}, nil
}

// openFor opens the Pod's Link once there is somebody to talk to: an IP and a Secret.
func (p podReconciler) openFor(ctx context.Context, o *corev1.Pod) error {
	var run hearthv1.AgentRun
	key := types.NamespacedName{Namespace: o.Namespace, Name: o.Name} // a Pod has its run's name; its label may be gone
	err := p.kube.Get(ctx, key, &run)
	switch {
	case apierrors.IsNotFound(err):
		return nil // its event comes
	case err != nil:
		return fmt.Errorf("read run %s: %w", key.Name, err)
	case delivered(&run) || !pod.Of(o, &run) || run.Spec.Runtime == nil || run.Spec.Runtime.Delivery == nil || o.Status.PodIP == "":
		return nil
	}
	cfg := client.Config{
		Target:  wire.Identity{Namespace: o.Namespace, PodName: o.Name, PodUID: string(o.UID)},
		Address: net.JoinHostPort(o.Status.PodIP, strconv.Itoa(int(run.Spec.Runtime.Delivery.Port))),
		Scheme:  wire.Scheme(run.Spec.Runtime.Delivery.Scheme),
		Now:     p.now, Random: p.random, Log: p.log, Changed: p.changed, Panicked: metrics.LinkPanicked, Timeouts: p.limits,
		Backoff: func(failures int) time.Duration { return delivery.Backoff(failures, p.jitter()) },
	}
	if link, open := p.links.Get(string(o.UID)); open {
		if listening, _ := pod.Listening(o); listening && link.Status().State != client.StateVerified {
			link.Kick()
		}
	} else if cfg.Keys, err = p.keys(ctx, &run, string(o.UID)); err != nil {
		return err
	}
	p.mu.Lock()
	p.open[string(o.UID)] = place{pod: kube.ObjectKeyFromObject(o), agent: agentKey(&run)}
	p.mu.Unlock()
	if _, err := p.links.Ensure(cfg); err != nil {
		return fmt.Errorf("open the link to Pod %s: %w", o.Name, err)
	}
	return nil
}

// keys reads the standing run's Secret by name, from the API server, once per Link. Another one of that name is not ours.
func (p podReconciler) keys(ctx context.Context, run *hearthv1.AgentRun, podUID string) (challenge.Keys, error) {
	var secret corev1.Secret
	name := hearthv1.RunSecretName(run.Name, run.UID)
	if err := p.live.Get(ctx, types.NamespacedName{Namespace: run.Namespace, Name: name}, &secret); err != nil {
		return challenge.Keys{}, fmt.Errorf("read Secret %s: %w", name, err)
	}
	if !metav1.IsControlledBy(&secret, run) {
		return challenge.Keys{}, fmt.Errorf("secret %s: expected it to be owned by run %s", name, run.Name)
	}
	keys, err := challenge.Derive(secret.Data[hearthv1.SecretToken], podUID)
	if err != nil {
		return challenge.Keys{}, fmt.Errorf("secret %s, key %s: %w", name, hearthv1.SecretToken, err)
	}
	return keys, nil
}

// closeOthers closes the Links of earlier Pods of that name, and of this one when it has ended; each only after the API server
// confirmed it. Lost tells that a Link stays open though the cache has no such Pod.
func (p podReconciler) closeOthers(ctx context.Context, key types.NamespacedName, uid types.UID, alive bool) (lost bool, err error) {
	var suspects []string
	p.mu.Lock()
	for podUID, place := range p.open {
		if place.pod == key && (!alive || podUID != string(uid)) {
			suspects = append(suspects, podUID)
		}
	}
	p.mu.Unlock()
	if len(suspects) == 0 {
		return false, nil
	}
	var live corev1.Pod
	err = p.live.Get(ctx, key, &live)
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("read Pod %s: %w", key.Name, err)
	}
	for _, podUID := range suspects {
		if err == nil && string(live.UID) == podUID && !pod.Ended(&live) {
			lost = true
			continue
		}
		p.close(ctx, podUID)
	}
	return lost, nil
}

// close closes a Link whose Pod is gone, and tells everybody who waits for it.
func (p podReconciler) close(ctx context.Context, podUID string) {
	p.mu.Lock()
	agent := p.open[podUID].agent
	delete(p.open, podUID)
	p.mu.Unlock()
	p.links.Remove(podUID)
	p.memory.took(podUID)
	p.agents.wake(agent)
	p.standing.wake(agent)
	p.wakeRunsOn(ctx, podUID)
}
