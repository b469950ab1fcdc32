package forward

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// within is a namespace with these objects, of which a person may not read the Secrets named.
func within(t *testing.T, kind, name string, access Access, forbidden string, objects ...client.Object) (*Target, *[]string) {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	require.NoError(t, hearthv1.AddToScheme(scheme))
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
			if _, secret := into.(*corev1.Secret); secret && strings.Contains(forbidden, key.Name) {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, key.Name, errors.New("no"))
			}
			return c.Get(ctx, key, into, opts...)
		},
	}).Build()
	said := &[]string{}
	return &Target{kind: kind, name: name, Access: access, Cluster: Cluster{Namespace: "team", Client: c, Say: func(format string, args ...any) {
		*said = append(*said, fmt.Sprintf(format, args...))
	}}}, said
}

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "team", Name: name, Labels: map[string]string{hearthv1.LabelAgent: "reviewer"}}
}

func agent() *hearthv1.Agent {
	a := &hearthv1.Agent{ObjectMeta: named("reviewer")}
	a.UID = "agent-uid"
	a.Status.Conditions = []metav1.Condition{{Type: hearthv1.AgentConditionReady, Status: metav1.ConditionFalse, Reason: "Recasting", Message: "in 4 s"}}
	return a
}

// standing is a run that keeps a Pod standing, which listens.
func standing(name string, change func(*hearthv1.AgentRun)) *hearthv1.AgentRun {
	r := &hearthv1.AgentRun{ObjectMeta: named(name)}
	r.Annotations = map[string]string{hearthv1.AnnotationGeneration: "1"}
	r.Spec.AgentRef = hearthv1.AgentRef{Name: "reviewer", UID: "agent-uid"}
	r.Status.PodName, r.Status.PodUID = name, types.UID(name+"-uid")
	r.Status.Conditions = []metav1.Condition{{Type: hearthv1.AgentRunConditionACPReady, Status: metav1.ConditionTrue}}
	if change != nil {
		change(r)
	}
	return r
}

// R4, R50: an agent's Pod is one that listens and takes work, by the run's own word.
func TestAnAgentsPodIsAStandingRunsThatListens(t *testing.T) {
	now := metav1.NowMicro()
	k, _ := within(t, "agent", "reviewer", Best, "", agent(),
		standing("reviewer-1", func(r *hearthv1.AgentRun) { r.Status.Conditions[0].Status = metav1.ConditionFalse }),
		standing("reviewer-2", func(r *hearthv1.AgentRun) { r.Status.CordonedAt = &now }),
		standing("reviewer-3", func(r *hearthv1.AgentRun) { r.Status.CompletionTime = &now }),
		standing("reviewer-4", func(r *hearthv1.AgentRun) { r.Spec.AgentRef.UID = "of an Agent of that name that is gone" }),
		standing("reviewer-5", func(r *hearthv1.AgentRun) { r.Annotations, r.Spec.Delivery = nil, &hearthv1.DeliverySpec{Port: 4100} }),
		standing("reviewer-7", nil), standing("reviewer-6", nil))
	p, err := k.find(t.Context())
	require.NoError(t, err)
	assert.Equal(t, Pod{Name: "reviewer-6", UID: "reviewer-6-uid", Agent: "reviewer"}, p)

	k, _ = within(t, "agent", "reviewer", Best, "", agent())
	_, err = k.find(t.Context())
	assert.EqualError(t, err, "agent/reviewer has no standing run that listens (Recasting: in 4 s)")
	assert.NotErrorAs(t, k.Judge(err), new(Final), "it may come")

	k, _ = within(t, "agent", "nobody", Best, "")
	_, err = k.find(t.Context())
	assert.ErrorAs(t, k.Judge(err), new(Final))
}

func TestARunsPodIsItsOwnOrWhereItWasDelivered(t *testing.T) {
	delivered := standing("review-1", func(r *hearthv1.AgentRun) {
		r.Annotations, r.Spec.Delivery = nil, &hearthv1.DeliverySpec{Port: 4100}
		r.Status.PodName, r.Status.PodUID, r.Status.Delivery = "", "", &hearthv1.DeliveryStatus{PodName: "reviewer-1", PodUID: "u"}
	})
	k, _ := within(t, "run", "review-1", Best, "", delivered)
	p, err := k.find(t.Context())
	require.NoError(t, err)
	assert.Equal(t, Pod{Name: "reviewer-1", UID: "u", Agent: "reviewer"}, p)

	k, _ = within(t, "run", "own", Best, "", standing("own", nil))
	p, err = k.find(t.Context())
	require.NoError(t, err)
	assert.Equal(t, Pod{Name: "own", UID: "own-uid", Agent: "reviewer"}, p)

	for want, change := range map[string]func(*hearthv1.AgentRun){
		"run/x has no Pod yet (TargetBusy: all are)": func(r *hearthv1.AgentRun) {
			r.Status = hearthv1.AgentRunStatus{Conditions: []metav1.Condition{{Type: hearthv1.AgentRunConditionSucceeded, Reason: "TargetBusy", Message: "all are"}}}
		},
		"run/x ended without a Pod: too late": func(r *hearthv1.AgentRun) {
			r.Status = hearthv1.AgentRunStatus{CompletionTime: ptrNow(), Message: "too late"}
		},
		"run/x is of no Agent, and so there are no keys to its endpoint": func(r *hearthv1.AgentRun) { r.Spec.AgentRef = hearthv1.AgentRef{} },
	} {
		k, _ := within(t, "run", "x", Best, "", standing("x", change))
		_, err := k.find(t.Context())
		require.EqualError(t, err, want)
		assert.Equal(t, !strings.Contains(want, "yet"), errors.As(err, new(Final)), want)
	}
}

func ptrNow() *metav1.MicroTime { now := metav1.NowMicro(); return &now }

// The key goes to no Pod but the one that is meant: a name is used again.
func TestAPodOfTheSameNameIsNotMeant(t *testing.T) {
	found := &corev1.Pod{ObjectMeta: named("reviewer-1"), Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	found.UID = "another"
	for kind, final := range map[string]bool{"run": true, "agent": false} {
		k, _ := within(t, kind, "x", Best, "", found)
		require.NoError(t, k.check(t.Context(), Pod{Name: "reviewer-1", UID: "another"}))
		for _, p := range []Pod{{Name: "reviewer-1", UID: "meant"}, {Name: "none", UID: "meant"}} {
			err := k.check(t.Context(), p)
			require.ErrorContains(t, err, "is gone")
			assert.Equal(t, final, errors.As(err, new(Final)), "an agent's next Pod may come, a run's does not")
		}
	}
	pending := found.DeepCopy()
	pending.Status.Phase = corev1.PodPending
	k, _ := within(t, "run", "x", Best, "", pending)
	assert.EqualError(t, k.check(t.Context(), Pod{Name: "reviewer-1", UID: "another"}), "Pod reviewer-1 is Pending")
}

// R53: who may not read the steer key watches, and is told so.
func TestTheKeyIsTheBestThatAPersonMayRead(t *testing.T) {
	secrets := []client.Object{}
	for _, name := range []string{"reviewer-acp-steer", "reviewer-acp-view"} {
		secrets = append(secrets, &corev1.Secret{ObjectMeta: named(name), Data: map[string][]byte{"secret-key": []byte(name)}})
	}
	for _, c := range []struct {
		access                    Access
		forbidden, key, may, said string
	}{
		{Best, "", "reviewer-acp-steer", "steer", ""},
		{Watch, "", "reviewer-acp-view", "watch", ""},
		{Watch, "reviewer-acp-steer", "reviewer-acp-view", "watch", ""},
		{Best, "reviewer-acp-steer", "reviewer-acp-view", "watch", "no right to read Secret reviewer-acp-steer: connecting with the key that may watch only"},
	} {
		k, said := within(t, "agent", "reviewer", c.access, c.forbidden, secrets...)
		key, may, err := k.Key(t.Context(), "reviewer", k.Access)
		require.NoError(t, err)
		assert.Equal(t, []string{c.key, c.may, c.said}, []string{key, may, strings.Join(*said, "")})
	}
	k, _ := within(t, "agent", "reviewer", Best, "reviewer-acp-steer reviewer-acp-view", secrets...)
	_, _, err := k.Key(t.Context(), "reviewer", k.Access)
	assert.True(t, apierrors.IsForbidden(err))
	assert.ErrorAs(t, k.Judge(err), new(Final))
	assert.ErrorContains(t, k.Judge(err), "no right to read a key of Agent reviewer in namespace team: it takes get on the Secret reviewer-acp-view to watch, reviewer-acp-steer to steer: ")
	assert.NotContains(t, k.Judge(err).Error(), "ClusterRole")
	k, _ = within(t, "agent", "reviewer", Best, "", &corev1.Secret{ObjectMeta: named("reviewer-acp-steer")})
	_, _, err = k.Key(t.Context(), "reviewer", k.Access)
	assert.EqualError(t, err, "Secret reviewer-acp-steer has no secret-key")
}

// What is said of a refusal tells where was looked and what is missing.
func TestWhatIsRefusedSaysWhatToDo(t *testing.T) {
	k, _ := within(t, "agent", "nosuch", Best, "")
	_, err := k.Dial(t.Context())
	assert.EqualError(t, err, `agents.hearth.dev "nosuch" not found in namespace team (-n chooses another)`)
	assert.ErrorAs(t, err, new(Final))
	err = k.Judge(apierrors.NewForbidden(schema.GroupResource{Resource: "agents"}, "x", errors.New("no")))
	assert.ErrorContains(t, err, "it takes the ClusterRole hearth-connect, bound to you in namespace team")
	assert.Equal(t, "Standing", Because([]metav1.Condition{{Type: "Ready", Reason: "Standing"}}, "Ready"))
}

// A right that is missing does not come by asking again; a Pod that does not listen yet may.
func TestAPortForwardThatIsForbiddenIsFinal(t *testing.T) {
	forbidden := errors.New(`unable to upgrade connection: pods "x" is forbidden: User "y" cannot create resource "pods/portforward"`)
	assert.ErrorAs(t, refusedForward(forbidden), new(Final))
	assert.NotErrorAs(t, refusedForward(errors.New("connect: connection refused")), new(Final))
}

// A node's words for a port on which nobody listens are long.
func TestWhatTheFarEndSaysIsShort(t *testing.T) {
	assert.Equal(t, "nothing listens there now: its agent does not answer",
		farEnd(`failed to execute portforward in network namespace "/run/x": IPv4: dial tcp4 127.0.0.1:4000: connect: connection refused`))
	assert.Equal(t, "no such container", farEnd("no such container\n"))
}
