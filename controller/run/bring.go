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

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/challenge"
)

// errStale: the cache showed a run that has changed since.
var errStale = errors.New("the run changed since it was read")

// bring makes what a run needs, and then the Pod, of a run that never had one. The cache may be behind, so the run is read live first:
// one run never has two Pods. What stands in the way is not an error but a reason on the run.
func (r *Reconciler) bring(ctx context.Context, o Observed) (Observed, error) {
	if o.Blocked = r.backing(o.Run).missing(); o.Blocked != "" {
		return o, nil
	}
	from := r.backing(o.Run)
	// What is made before the Pod takes a while. A run that was cancelled, or that another controller gave a Pod, meanwhile gets none.
	steps := []func(context.Context, *Observed) (obstacle, error){r.confirm, r.makeSecret, r.makeKeys, from.prepare, r.confirm, from.make}
	for _, step := range steps {
		met, err := step(ctx, &o)
		if err != nil || met.why != "" {
			o.Blocked, o.Never = met.why, met.never
			return o, err
		}
	}
	return o, nil
}

// confirm reads the run live: errStale if it is to have no Pod made any more.
func (r *Reconciler) confirm(ctx context.Context, o *Observed) (obstacle, error) {
	var now v1alpha1.AgentRun
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(o.Run), &now); client.IgnoreNotFound(err) != nil {
		return obstacle{}, fmt.Errorf("read run live: %w", err)
	}
	if now.UID != o.Run.UID || decide(Observed{Run: &now, Now: o.Now}) != actionMake {
		return obstacle{}, errStale
	}
	return obstacle{}, nil
}

// obstacle is what stands in the way of making something; the zero value is nothing.
type obstacle struct {
	why string
	// never: it is in the run's spec, and that does not change.
	never bool
}

func (r *Reconciler) makeSecret(ctx context.Context, o *Observed) (obstacle, error) {
	token, err := challenge.NewRoot(r.Random)
	if err != nil {
		return obstacle{}, fmt.Errorf("make the root secret: %w", err)
	}
	err = r.Client.Create(ctx, BuildSecret(o.Run, token))
	if apierrors.IsAlreadyExists(err) {
		problem, err := r.credential(ctx, o.Run)
		return obstacle{why: problem}, err
	}
	return refusedBy("Secret", err)
}

// makeKeys makes the Agent's two Secrets for people, unless they are there. A one-shot run goes on without them where they are another
// Agent's of that name: its own may be gone.
func (r *Reconciler) makeKeys(ctx context.Context, o *Observed) (obstacle, error) {
	if o.Run.AdHoc() {
		return obstacle{}, nil
	}
	view, steer := v1alpha1.KeySecretNames(o.Run.Spec.AgentRef.Name)
	for _, name := range []string{view, steer} {
		value, err := challenge.NewRoot(r.Random)
		if err != nil {
			return obstacle{}, fmt.Errorf("make a key: %w", err)
		}
		var met obstacle
		err = r.Client.Create(ctx, BuildKey(o.Run, name, value))
		if apierrors.IsAlreadyExists(err) {
			met.why, err = r.problemOf(ctx, client.ObjectKey{Namespace: o.Run.Namespace, Name: name}, "Agent", o.Run.Spec.AgentRef.UID)
		} else {
			met, err = refusedBy("Secret", err)
		}
		switch {
		case err != nil:
			return met, err
		case met.why != "" && o.Run.OneShot():
			o.Keyless = true
		case met.why != "":
			return met, nil
		}
	}
	return obstacle{}, nil
}

// credential says what is wrong with the run's Secret, "" if nothing is.
func (r *Reconciler) credential(ctx context.Context, run *v1alpha1.AgentRun) (problem string, err error) {
	return r.problemOf(ctx, client.ObjectKey{Namespace: run.Namespace, Name: v1alpha1.RunSecretName(run.Name, run.UID)}, "run", run.UID)
}

// problemOf says what is wrong with a Secret, "" if nothing is. One that exists is a run's or an Agent's only if its UID owns it.
func (r *Reconciler) problemOf(ctx context.Context, key client.ObjectKey, whose string, owner types.UID) (problem string, err error) {
	var secret corev1.Secret
	err = r.Live.Get(ctx, key, &secret)
	switch controller := metav1.GetControllerOfNoCopy(&secret); {
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("Secret %s does not exist", key.Name), nil
	case err != nil:
		return "", fmt.Errorf("read Secret: %w", err)
	case controller == nil || controller.UID != owner:
		return fmt.Sprintf("Secret %s exists and is not this %s's: delete it", key.Name, whose), nil
	default:
		return "", nil
	}
}

// refusedBy tells a refusal, which a person must look at (Pod security, quota, an invalid template), from a failure. What is invalid stays
// so; what is forbidden may be allowed later.
func refusedBy(kind string, err error) (obstacle, error) {
	switch {
	case err == nil:
		return obstacle{}, nil
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return obstacle{why: fmt.Sprintf("the API server refused the %s: %v", kind, err), never: apierrors.IsInvalid(err)}, nil
	default:
		return obstacle{}, fmt.Errorf("create %s: %w", kind, err)
	}
}
