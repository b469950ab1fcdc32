package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// operator reads live: a run that is not there is gone then, and not merely unknown to a cache.
type operator struct{ client.Client }

// Reconcile takes one step and never waits: what it writes wakes it again, and so does the end of a run. A step is decided in the status
// before it is begun, so that of two operators the API server's resource version picks the one that decides.
func (o *operator) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var r Remediation
	err := o.Get(ctx, request.NamespacedName, &r)
	if err != nil || r.DeletionTimestamp != nil || r.Status.Phase != "" && r.Status.Phase != working {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if step := r.open(); step != nil {
		err = o.follow(ctx, &r, step)
	}
	if r.open() == nil {
		r.advance()
	}
	return ctrl.Result{}, errors.Join(err, client.IgnoreNotFound(o.Status().Update(ctx, &r)))
}

// follow finds the step's run, whoever created it before he died, or creates it; it notes how the run ended, if it has.
func (o *operator) follow(ctx context.Context, r *Remediation, step *Step) error {
	run := &hearthv1.AgentRun{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: step.Run}}
	err := o.Get(ctx, client.ObjectKeyFromObject(run), run)
	switch gone := apierrors.IsNotFound(err) || err == nil && step.UID != "" && step.UID != run.UID; {
	case gone && step.UID != "":
		step.Reason = recordGone
	case gone:
		return o.create(ctx, r, step, run)
	case err != nil:
		return err
	case !metav1.IsControlledBy(run, r):
		step.Reason = nameTaken
	default:
		step.take(run)
	}
	return nil
}

func (o *operator) create(ctx context.Context, r *Remediation, step *Step, run *hearthv1.AgentRun) error {
	run.OwnerReferences = []metav1.OwnerReference{{APIVersion: groupVersion.String(), Kind: "Remediation", Name: r.Name, UID: r.UID, Controller: new(true)}}
	run.Spec = hearthv1.AgentRunSpec{AgentRef: hearthv1.AgentRef{Name: step.Name}, Parameters: parameters(r.Spec.Problem, r.Status.Steps)}
	err := o.Create(ctx, run)
	if err == nil {
		step.UID, r.Status.Message = run.UID, ""
	} else if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) { // the words of admission, or of a quota
		r.Status.Message = fmt.Sprintf("cannot begin %s: %v", step.Run, err)
	}
	return err
}

func main() {
	namespace := flag.String("namespace", "default", "where Remediations are looked after")
	flag.Parse()
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, nil)))
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{Scheme: scheme(), Metrics: server.Options{BindAddress: "0"},
		Cache:  cache.Options{DefaultNamespaces: map[string]cache.Config{*namespace: {}}},
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&Remediation{}, &hearthv1.AgentRun{}}}}})
	if err == nil { // of runs only the metadata is watched, so that nobody's output fills this operator's memory
		err = ctrl.NewControllerManagedBy(mgr).For(&Remediation{}, builder.OnlyMetadata).Owns(&hearthv1.AgentRun{}, builder.OnlyMetadata).
			Complete(&operator{mgr.GetClient()})
	}
	if err == nil {
		err = mgr.Start(ctrl.SetupSignalHandler())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "steps:", err)
		os.Exit(1)
	}
}

func scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	s.AddKnownTypes(groupVersion, &Remediation{})
	metav1.AddToGroupVersion(s, groupVersion)
	utilruntime.Must(hearthv1.AddToScheme(s))
	return s
}
