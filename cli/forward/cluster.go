package forward

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// Cluster is one namespace, as one person may see it.
type Cluster struct {
	Namespace string
	Config    *rest.Config
	Client    client.Client
	// Say takes what the person should know.
	Say func(format string, args ...any)
}

// Pod is whose endpoint to dial: a Pod, and the Agent whose key opens it.
type Pod struct {
	Name  string
	UID   types.UID
	Agent string
}

// URL is the address of a path on port 4000 of a Pod, for a client that Through makes.
func (p Pod) URL(scheme, path string) string {
	return fmt.Sprintf("%s://%s:%d%s", scheme, p.Name, hearthv1.PortACPNumber, path)
}

// Through is an HTTP client whose every connection is a port-forward to port 4000 of the Pod.
func (k *Cluster) Through(p Pod) *http.Client {
	return &http.Client{Transport: &http.Transport{
		MaxResponseHeaderBytes: maxHeaderBytes, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return Conn(ctx, k.Config, k.Namespace, p.Name, hearthv1.PortACPNumber)
		},
	}}
}

// maxHeaderBytes bounds what an endpoint may say before it is one.
const maxHeaderBytes = 64 << 10

// Judge makes final what the API server refuses: nothing changes by asking again soon. It says where was looked, and what is missing.
func (k *Cluster) Judge(err error) error {
	switch {
	case meta.IsNoMatchError(err):
		err = fmt.Errorf("this cluster has no Agents: is Hearth installed, and is it the context that you mean? %w", err)
	case apierrors.IsNotFound(err):
		err = fmt.Errorf("%w in namespace %s (-n chooses another)", err, k.Namespace)
	case apierrors.IsForbidden(err) && !errors.As(err, new(noKey)):
		err = fmt.Errorf("%w; it takes the ClusterRole hearth-connect, bound to you in namespace %s", err, k.Namespace)
	}
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return Final{err}
	}
	return err
}

// OfAgent is the Pod of a standing run of an Agent that listens and takes work.
func (k *Cluster) OfAgent(ctx context.Context, name string) (Pod, error) {
	var agent hearthv1.Agent
	if err := k.Client.Get(ctx, client.ObjectKey{Namespace: k.Namespace, Name: name}, &agent); err != nil {
		return Pod{}, err
	}
	var runs hearthv1.AgentRunList
	if err := k.Client.List(ctx, &runs, client.InNamespace(k.Namespace), client.MatchingLabels{hearthv1.LabelAgent: name}); err != nil {
		return Pod{}, err
	}
	// The first by name, so that whoever comes back finds the same.
	slices.SortFunc(runs.Items, func(a, b hearthv1.AgentRun) int { return strings.Compare(a.Name, b.Name) })
	for _, run := range runs.Items {
		ready := meta.IsStatusConditionTrue(run.Status.Conditions, hearthv1.AgentRunConditionACPReady)
		if run.Standing() && ready && !run.Ended() && run.Status.CordonedAt == nil && run.Spec.AgentRef.UID == agent.UID {
			return Pod{Name: run.Status.PodName, UID: run.Status.PodUID, Agent: name}, nil
		}
	}
	return Pod{}, fmt.Errorf("agent/%s has no standing run that listens (%s)", name, Because(agent.Status.Conditions, hearthv1.AgentConditionReady))
}

// OfRun is the Pod that a run was delivered to, or its own.
func OfRun(run *hearthv1.AgentRun) (Pod, error) {
	p := Pod{Name: run.Status.PodName, UID: run.Status.PodUID, Agent: run.Spec.AgentRef.Name}
	if d := run.Status.Delivery; p.Name == "" && d != nil {
		p.Name, p.UID = d.PodName, d.PodUID
	}
	switch {
	case run.AdHoc():
		return Pod{}, Final{fmt.Errorf("run/%s is of no Agent, and so there are no keys to its endpoint", run.Name)}
	case p.Name == "" && run.Ended():
		return Pod{}, Final{fmt.Errorf("run/%s ended without a Pod: %s", run.Name, run.Status.Message)}
	case p.Name == "":
		return Pod{}, fmt.Errorf("run/%s has no Pod yet (%s)", run.Name, Because(run.Status.Conditions, hearthv1.AgentRunConditionSucceeded))
	}
	return p, nil
}

// Because is what a condition says, in words.
func Because(conditions []metav1.Condition, kind string) string {
	c := meta.FindStatusCondition(conditions, kind)
	switch {
	case c == nil:
		return "not looked at yet"
	case c.Message == "":
		return c.Reason
	}
	return c.Reason + ": " + c.Message
}

// ErrGone says that a Pod is no more, or that another has its name.
var ErrGone = errors.New("is gone")

// Check looks at the Pod itself: a name is used again, and a Pod that does not run cannot be dialled. The error matches ErrGone, or a *NotRunning.
func (k *Cluster) Check(ctx context.Context, p Pod) error {
	var found corev1.Pod
	err := k.Client.Get(ctx, client.ObjectKey{Namespace: k.Namespace, Name: p.Name}, &found)
	switch {
	case apierrors.IsNotFound(err) || err == nil && found.UID != p.UID:
		return fmt.Errorf("Pod %s %w", p.Name, ErrGone) //nolint:staticcheck // a kind's name
	case err != nil:
		return err
	case found.Status.Phase != corev1.PodRunning:
		return &NotRunning{Pod: p.Name, Phase: found.Status.Phase}
	}
	return nil
}

// NotRunning is a Pod that is there and does not run.
type NotRunning struct {
	Pod   string
	Phase corev1.PodPhase
}

func (n *NotRunning) Error() string { return fmt.Sprintf("Pod %s is %s", n.Pod, n.Phase) }

// Access is which of an Agent's keys a person wants.
type Access int

// The keys.
const (
	Best  Access = iota // to steer where that key may be read, else to watch
	Watch               // the one that may only watch
	Steer               // the one that may steer
)

// noKey says that a person may read no key.
type noKey struct{ error }

func (n noKey) Unwrap() error { return n.error }

// Key reads a key, and says what it is good for.
func (k *Cluster) Key(ctx context.Context, agent string, access Access) (key, may string, err error) {
	view, steer := hearthv1.KeySecretNames(agent)
	name, may := steer, "steer"
	if access == Watch {
		name, may = view, "watch"
	}
	var secret corev1.Secret
	err = k.Client.Get(ctx, client.ObjectKey{Namespace: k.Namespace, Name: name}, &secret)
	if apierrors.IsForbidden(err) && access == Best {
		may = "watch"
		err = k.Client.Get(ctx, client.ObjectKey{Namespace: k.Namespace, Name: view}, &secret)
		if err == nil {
			k.Say("no right to read Secret %s: connecting with the key that may watch only", steer)
		}
	}
	if apierrors.IsForbidden(err) {
		return "", "", noKey{fmt.Errorf("no right to read a key of Agent %s in namespace %s: it takes get on the Secret %s to watch, %s to steer: %w", agent, k.Namespace, view, steer, err)}
	}
	if err != nil {
		return "", "", err
	}
	key = string(secret.Data[hearthv1.SecretKey])
	if key == "" {
		return "", "", Final{fmt.Errorf("Secret %s has no %s", secret.Name, hearthv1.SecretKey)} //nolint:staticcheck // a kind's name
	}
	return key, may, nil
}
