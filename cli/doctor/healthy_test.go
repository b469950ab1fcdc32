package doctor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"maps"
	"math/big"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/hearthdev/hearth/api/shard"
	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// now is the API server's clock in these tests.
var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

func crdFile(t *testing.T, resource string) map[string]any {
	t.Helper()
	text, err := os.ReadFile("../../config/crd/hearth.dev_" + resource + ".yaml")
	require.NoError(t, err)
	var crd map[string]any
	require.NoError(t, yaml.Unmarshal(text, &crd))
	return crd
}

// authority signs webhook certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-day), NotAfter: now.Add(1000 * day), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	certificate, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return authority{certificate, key}
}

func (a authority) bundle() []byte { return asPEM(a.certificate.Raw) }

func (a authority) serving(t *testing.T, until time.Time) []byte {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: now.Add(-10 * day), NotAfter: until, DNSNames: []string{"hearth-webhook.hearth-system.svc"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, a.key.Public(), a.key)
	require.NoError(t, err)
	return asPEM(der)
}

func asPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// world makes Observed values in which nothing is wrong: an installation, and the Agent reviewer with one standing run.
type world struct {
	t         *testing.T
	authority authority
	schemas   map[string]Schema
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, authority: newAuthority(t), schemas: map[string]Schema{}}
	for _, k := range kinds {
		w.schemas[k.kind] = schemaOf(crdFile(t, k.resource))
	}
	return w
}

func (w *world) healthy() Observed {
	o := Observed{
		Now: now, Namespace: "team", System: "hearth-system", CLI: "v0.2.0", Wanted: "reviewer",
		API:    API{Host: "https://one.example", Version: "v1.37.1", Major: 1, Minor: 37},
		Kinds:  Got([]string{"agents", "agents/status", "agents/scale", "agentruns", "agentruns/status"}),
		CRDs:   map[string]Read[CRD]{"agents": Got(CRD{Established: true}), "agentruns": Got(CRD{Established: true})},
		Fields: map[string]Read[Schema]{}, Tails: map[string]string{},
		ControllerUser: "system:serviceaccount:hearth-system:hearth-controller",
		Certificate:    Got(w.authority.serving(w.t, now.Add(200*day))),
		Admission:      Admission{Answer: AdmissionAnswers},
		ControllerMay:  Got(allowed(controllersRights("team", "hearth-system"))),
		YouMay:         Got(allowed(personsRights("team", "reviewer"))),
		Service:        Got(corev1.Service{}),
		Slices:         Got([]discoveryv1.EndpointSlice{{Endpoints: []discoveryv1.Endpoint{{Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}}}}),
		Runs:           Got([]hearthv1.AgentRun{standingRun(), finishedRun()}),
	}
	for kind, schema := range w.schemas {
		o.Fields[kind] = Got(schema)
	}
	for _, kind := range []string{kindMutating, kindValidating} {
		var all []Hook
		for _, name := range hooks[kind] {
			all = append(all, Hook{Name: name, FailClosed: true, Bundle: w.authority.bundle(), Service: "hearth-system/hearth-webhook"})
		}
		o.Webhooks = append(o.Webhooks, Webhooks{Kind: kind, Read: Got(all)})
	}
	d := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "hearth-system", Name: "hearth-controller"}}
	d.Spec.Replicas, d.Status.AvailableReplicas = ptr.To(int32(1)), 1
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "controller", Image: "registry/controller:1", Args: []string{"--leader-elect"}}}
	o.Deployments, o.SystemPods = Got([]appsv1.Deployment{d}), Got([]corev1.Pod{runningPod("hearth-controller-x", "controller")})
	renewed := metav1.NewMicroTime(now.Add(-2 * time.Second))
	o.Lease = Got(coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("hearth-controller-x_1234"), RenewTime: &renewed}})
	o.Leases = Got([]coordinationv1.Lease{*o.Lease.Value.DeepCopy()})
	o.Leases.Value[0].Name = shard.LeaseName
	o.Agents = Got([]AgentSeen{agentSeen()})
	return o
}

// led has controllers lead for these sets instead of one for all.
func (o *Observed) led(by ...shard.Set) {
	o.Lease, o.Leases = Read[coordinationv1.Lease]{Absent: true}, Got([]coordinationv1.Lease{})
	for _, of := range by {
		l := coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: of.Lease(), Annotations: map[string]string{shard.AnnotationSelector: of.String()}}}
		l.Spec.HolderIdentity, l.Spec.RenewTime = ptr.To("hearth-controller-y_1"), ptr.To(metav1.NewMicroTime(now.Add(-2*time.Second)))
		o.Leases.Value = append(o.Leases.Value, l)
	}
}

func allowed(rights []Right) []Right {
	rights = slices.Clone(rights)
	for i := range rights {
		rights[i].Allowed = true
	}
	return rights
}

func agentSeen() AgentSeen {
	a := hearthv1.Agent{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "reviewer", UID: "agent-uid", Generation: 3, CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}}
	a.Spec.Mode, a.Spec.Replicas, a.Spec.GoalTemplate = hearthv1.AgentModeService, ptr.To(int32(1)), "Review ${change}; keep $${this}."
	a.Spec.Runtime.Delivery = &hearthv1.DeliveryRuntime{Port: 4100}
	a.Spec.Template.Spec.Containers = []corev1.Container{{Name: "agent", Image: "registry/agent:1"}}
	a.Status.ObservedGeneration, a.Status.ReadyReplicas = 3, 1
	a.Status.Conditions = []metav1.Condition{
		{Type: hearthv1.AgentConditionReady, Status: metav1.ConditionTrue, Reason: hearthv1.ReasonStanding},
		{Type: hearthv1.AgentConditionProgressing, Status: metav1.ConditionFalse, Reason: hearthv1.ReasonStanding},
	}
	return AgentSeen{
		Name: "reviewer", Agent: Got(a), Keys: map[string]Read[int]{"reviewer-acp-view": Got(43), "reviewer-acp-steer": Got(43)},
		Policies:     Got([]networkingv1.NetworkPolicy{}),
		SystemLabels: map[string]string{corev1.LabelMetadataName: "hearth-system"}, ControllerLabels: ControllerLabels(),
		Pods: []PodSeen{{
			Run: standingRun(), Pod: Got(runningPod("reviewer-1", "agent")), Secret: Got(43),
			Challenge: Probe{Heard: HeardOK, Harness: "v0.2.0", Agent: "goose 1.52.0", State: "ready", Room: "0 of 1 running, 0 of 1 queued"},
			ACP:       Probe{Heard: HeardOK, Agent: "goose 1.52.0"},
		}},
	}
}

func standingRun() hearthv1.AgentRun {
	r := hearthv1.AgentRun{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "reviewer-1", UID: "0123456789", Annotations: map[string]string{hearthv1.AnnotationGeneration: "3"}}}
	r.Spec.AgentRef = hearthv1.AgentRef{Name: "reviewer", UID: "agent-uid"}
	r.Status.PodName = "reviewer-1"
	r.Status.Conditions = []metav1.Condition{{Type: hearthv1.AgentRunConditionSucceeded, Status: metav1.ConditionUnknown, Reason: hearthv1.ReasonRunning}}
	return r
}

func finishedRun() hearthv1.AgentRun {
	r := waitingRun("review-1", "")
	ended := metav1.NewMicroTime(now.Add(-10 * time.Minute))
	r.Status.CompletionTime, r.Status.Reason = &ended, hearthv1.ReasonCompleted
	r.Status.Conditions = []metav1.Condition{{Type: hearthv1.AgentRunConditionSucceeded, Status: metav1.ConditionTrue, Reason: hearthv1.ReasonCompleted}}
	return r
}

// waitingRun is a delivered run that waits with a reason for five minutes.
func waitingRun(name, reason string) hearthv1.AgentRun {
	r := hearthv1.AgentRun{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, CreationTimestamp: metav1.NewTime(now.Add(-5 * time.Minute))}}
	r.Spec.AgentRef, r.Spec.Delivery = hearthv1.AgentRef{Name: "reviewer", UID: "agent-uid"}, &hearthv1.DeliverySpec{Port: 4100}
	if reason != "" {
		r.Status.Conditions = []metav1.Condition{{Type: hearthv1.AgentRunConditionSucceeded, Status: metav1.ConditionUnknown, Reason: reason, Message: "in words"}}
	}
	return r
}

func runningPod(name, container string) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, Labels: maps.Clone(map[string]string{hearthv1.LabelRun: name, hearthv1.LabelAgent: "reviewer"})}}
	p.Spec.Containers = []corev1.Container{{Name: container, Ports: []corev1.ContainerPort{{Name: "delivery", ContainerPort: 4100}}}}
	started := metav1.NewTime(now.Add(-time.Hour))
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &started, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: container, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}
	return p
}
