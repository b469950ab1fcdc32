package connect

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/coder/websocket"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/cli/kube"
)

// inCluster is the endpoint of a Pod, reached through the API server.
type inCluster struct {
	kind, name string // agent or run
	namespace  string
	watch      bool // with the key that may watch only
	config     *rest.Config
	client     client.Client
	say        func(format string, args ...any)
	told       string // what was said of the last connection
	pod        types.UID
}

// place implements placed.
func (k *inCluster) place() string { return string(k.pod) }

// inKubernetes reads agent/NAME or run/NAME.
func inKubernetes(target string, env *kube.Env, watch bool, say func(string, ...any)) (Target, error) {
	kind, name, _ := strings.Cut(target, "/")
	if kind != "agent" && kind != "run" || name == "" || strings.Contains(name, "/") {
		return nil, fmt.Errorf("expected agent/NAME, run/NAME or a URL such as ws://host:4000/acp, got %.64q", target)
	}
	config, err := env.Config()
	if err != nil {
		return nil, err
	}
	namespace, err := env.Namespace()
	if err != nil {
		return nil, err
	}
	c, err := env.Client()
	if err != nil {
		return nil, err
	}
	return &inCluster{kind: kind, name: name, namespace: namespace, watch: watch, config: config, client: c, say: say}, nil
}

// pod is whose endpoint to dial: a Pod, and the Agent whose key opens it.
type pod struct {
	name  string
	uid   types.UID
	agent string
}

func (k *inCluster) Dial(ctx context.Context) (*websocket.Conn, error) {
	p, err := k.find(ctx)
	if err != nil {
		return nil, k.judge(err)
	}
	if err := k.check(ctx, p); err != nil {
		return nil, k.judge(err)
	}
	key, may, err := k.key(ctx, p.agent)
	if err != nil {
		return nil, k.judge(err)
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return forward(ctx, k.config, k.namespace, p.name, hearthv1.PortACPNumber)
	}}
	conn, err := dial(ctx, fmt.Sprintf("ws://%s:%d/acp", p.name, hearthv1.PortACPNumber), key, &http.Client{Transport: transport})
	if err != nil {
		return nil, k.judge(err)
	}
	if told := fmt.Sprintf("connected to Pod %s of Agent %s; this key may %s", p.name, p.agent, may); told != k.told {
		k.say("%s", told)
		k.told = told
	}
	k.pod = p.uid
	return conn, nil
}

// judge makes final what the API server refuses: nothing changes by asking again soon. It says where was looked, and what is missing.
func (k *inCluster) judge(err error) error {
	switch {
	case meta.IsNoMatchError(err):
		err = fmt.Errorf("this cluster has no Agents: is Hearth installed, and is it the context that you mean? %w", err)
	case apierrors.IsNotFound(err):
		err = fmt.Errorf("%w in namespace %s (-n chooses another)", err, k.namespace)
	case apierrors.IsForbidden(err) && !errors.As(err, new(noKey)):
		err = fmt.Errorf("%w; it takes the ClusterRole hearth-connect, bound to you in namespace %s", err, k.namespace)
	}
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return Final{err}
	}
	return err
}

// find chooses the Pod.
func (k *inCluster) find(ctx context.Context) (pod, error) {
	if k.kind == "run" {
		return k.ofRun(ctx)
	}
	var agent hearthv1.Agent
	if err := k.client.Get(ctx, client.ObjectKey{Namespace: k.namespace, Name: k.name}, &agent); err != nil {
		return pod{}, err
	}
	var runs hearthv1.AgentRunList
	if err := k.client.List(ctx, &runs, client.InNamespace(k.namespace), client.MatchingLabels{hearthv1.LabelAgent: k.name}); err != nil {
		return pod{}, err
	}
	// The first by name, so that whoever comes back finds the same.
	slices.SortFunc(runs.Items, func(a, b hearthv1.AgentRun) int { return strings.Compare(a.Name, b.Name) })
	for _, run := range runs.Items {
		ready := meta.IsStatusConditionTrue(run.Status.Conditions, hearthv1.AgentRunConditionACPReady)
		if run.Standing() && ready && !run.Ended() && run.Status.CordonedAt == nil && run.Spec.AgentRef.UID == agent.UID {
			return pod{name: run.Status.PodName, uid: run.Status.PodUID, agent: k.name}, nil
		}
	}
	return pod{}, fmt.Errorf("agent/%s has no standing run that listens (%s)", k.name, because(agent.Status.Conditions, hearthv1.AgentConditionReady))
}

func (k *inCluster) ofRun(ctx context.Context) (pod, error) {
	var run hearthv1.AgentRun
	if err := k.client.Get(ctx, client.ObjectKey{Namespace: k.namespace, Name: k.name}, &run); err != nil {
		return pod{}, err
	}
	p := pod{name: run.Status.PodName, uid: run.Status.PodUID, agent: run.Spec.AgentRef.Name}
	if d := run.Status.Delivery; p.name == "" && d != nil {
		p.name, p.uid = d.PodName, d.PodUID
	}
	switch {
	case run.AdHoc():
		return pod{}, Final{fmt.Errorf("run/%s is of no Agent, and so there are no keys to its endpoint", k.name)}
	case p.name == "" && run.Ended():
		return pod{}, Final{fmt.Errorf("run/%s ended without a Pod: %s", k.name, run.Status.Message)}
	case p.name == "":
		return pod{}, fmt.Errorf("run/%s has no Pod yet (%s)", k.name, because(run.Status.Conditions, hearthv1.AgentRunConditionSucceeded))
	}
	return p, nil
}

func because(conditions []metav1.Condition, kind string) string {
	c := meta.FindStatusCondition(conditions, kind)
	switch {
	case c == nil:
		return "not looked at yet"
	case c.Message == "":
		return c.Reason
	}
	return c.Reason + ": " + c.Message
}

// check looks at the Pod itself: a name is used again, and a Pod that does not run cannot be dialled.
func (k *inCluster) check(ctx context.Context, p pod) error {
	var found corev1.Pod
	err := k.client.Get(ctx, client.ObjectKey{Namespace: k.namespace, Name: p.name}, &found)
	gone := apierrors.IsNotFound(err) || err == nil && found.UID != p.uid
	switch {
	case gone && k.kind == "run":
		return Final{fmt.Errorf("run/%s: its Pod %s is gone", k.name, p.name)}
	case gone:
		return fmt.Errorf("Pod %s is gone", p.name) //nolint:staticcheck // a kind's name
	case err != nil:
		return err
	case found.Status.Phase != corev1.PodRunning:
		return fmt.Errorf("Pod %s is %s", p.name, found.Status.Phase) //nolint:staticcheck // a kind's name
	}
	return nil
}

// noKey says that a person may read no key.
type noKey struct{ error }

func (n noKey) Unwrap() error { return n.error }

// key reads the best key that the person may read, and says what it is good for.
func (k *inCluster) key(ctx context.Context, agent string) (key, may string, err error) {
	view, steer := hearthv1.KeySecretNames(agent)
	name, may := steer, "steer"
	if k.watch {
		name, may = view, "watch"
	}
	var secret corev1.Secret
	err = k.client.Get(ctx, client.ObjectKey{Namespace: k.namespace, Name: name}, &secret)
	if apierrors.IsForbidden(err) && !k.watch {
		may = "watch"
		err = k.client.Get(ctx, client.ObjectKey{Namespace: k.namespace, Name: view}, &secret)
		if err == nil {
			k.say("no right to read Secret %s: connecting with the key that may watch only", steer)
		}
	}
	if apierrors.IsForbidden(err) {
		return "", "", noKey{fmt.Errorf("no right to read a key of Agent %s in namespace %s: it takes get on the Secret %s to watch, %s to steer: %w", agent, k.namespace, view, steer, err)}
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
