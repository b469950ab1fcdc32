// Package doctor_test has hearth doctor look at a real API server with the real webhooks, and at what is broken there.
package doctor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/cli"
	"github.com/hearthdev/hearth/cli/doctor"
	"github.com/hearthdev/hearth/cli/kube"
	"github.com/hearthdev/hearth/controller/admission"
	"github.com/hearthdev/hearth/test/apiserver"
	"github.com/hearthdev/hearth/test/apiserver/webhooks"
)

var server = apiserver.New(apiserver.Options{Webhooks: true})

func TestMain(m *testing.M) { os.Exit(server.Main(m)) }

const (
	patience = time.Minute
	tick     = 50 * time.Millisecond
	system   = "hearth-system"
	secret   = "a-root-secret-that-nobody-may-see-0123456789"
	goal     = "the confidential goal"
)

// scene is a namespace with the Agent reviewer, one standing run of it and its Pod, as kubelet and the controller would have left them.
// Nothing listens in the Pod.
type scene struct {
	t         *testing.T
	namespace string
	admin     client.Client
	stop      func() // the webhooks
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{t: t, namespace: server.Namespace(t), admin: server.Client(t)}
	s.stop = webhooks.Serve(t, server, admission.Options{}, nil)
	s.installation()
	s.agent()
	return s
}

func (s *scene) make(objects ...client.Object) {
	s.t.Helper()
	for _, o := range objects {
		require.NoError(s.t, s.admin.Create(s.t.Context(), o), o.GetName())
	}
}

// installation is what kubelet and the controller leave in hearth-system.
func (s *scene) installation() {
	root, err := apiserver.Root()
	require.NoError(s.t, err)
	require.NoError(s.t, apiserver.Apply(s.t.Context(), server.Admin(s.t), filepath.Join(root, "config", "manager")))
	require.NoError(s.t, apiserver.Apply(s.t.Context(), server.Admin(s.t), filepath.Join(root, "config", "webhook", "service.yaml")))
	var d appsv1.Deployment
	require.NoError(s.t, s.admin.Get(s.t.Context(), client.ObjectKey{Namespace: system, Name: "hearth-controller"}, &d))
	d.Status.Replicas, d.Status.ReadyReplicas, d.Status.AvailableReplicas = *d.Spec.Replicas, *d.Spec.Replicas, *d.Spec.Replicas
	require.NoError(s.t, s.admin.Status().Update(s.t.Context(), &d))
	certificate, err := os.ReadFile(filepath.Join(server.Webhook(s.t).CertDir, "tls.crt"))
	require.NoError(s.t, err)
	var kept corev1.Secret
	require.NoError(s.t, s.admin.Get(s.t.Context(), client.ObjectKey{Namespace: system, Name: "hearth-webhook-certificate"}, &kept))
	kept.Data = map[string][]byte{corev1.TLSCertKey: certificate}
	require.NoError(s.t, s.admin.Update(s.t.Context(), &kept))
	renewed := metav1.NowMicro()
	s.make(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "hearth-controller"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("hearth-controller-x_1"), RenewTime: &renewed}},
		&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "hearth-webhook-x", Labels: map[string]string{discoveryv1.LabelServiceName: "hearth-webhook"}},
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.9"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}}})
}

func (s *scene) agent() {
	ctx, controller := s.t.Context(), server.ControllerClient(s.t)
	agent := &hearthv1.Agent{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "reviewer"}, Spec: hearthv1.AgentSpec{GoalTemplate: goal + " ${change}",
		Parameters: []hearthv1.Parameter{{Name: "change", Description: "what to review"}},
		Runtime:    hearthv1.AgentRuntime{Command: []string{"goose", "acp"}, Delivery: &hearthv1.DeliveryRuntime{}},
		Template:   corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "registry/agent:1"}}}}}}
	s.make(agent)
	agent.Status.ObservedGeneration, agent.Status.ReadyReplicas = agent.Generation, 1
	agent.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Standing", LastTransitionTime: metav1.Now()}}
	require.NoError(s.t, controller.Status().Update(ctx, agent))
	run := &hearthv1.AgentRun{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "reviewer-1", Labels: map[string]string{hearthv1.LabelAgent: "reviewer"},
		Annotations: map[string]string{hearthv1.AnnotationGeneration: "1"}}, Spec: hearthv1.AgentRunSpec{AgentRef: hearthv1.AgentRef{Name: "reviewer", UID: agent.UID, Generation: 1},
		Goal: goal, Runtime: &agent.Spec.Runtime, Template: &agent.Spec.Template}}
	require.NoError(s.t, controller.Create(ctx, run))
	running := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "reviewer-1", Labels: map[string]string{hearthv1.LabelRun: "reviewer-1", hearthv1.LabelAgent: "reviewer"}}, Spec: agent.Spec.Template.Spec}
	s.make(running, s.secret(hearthv1.RunSecretName(run.Name, run.UID), hearthv1.SecretToken), s.secret("reviewer-acp-view", hearthv1.SecretKey), s.secret("reviewer-acp-steer", hearthv1.SecretKey))
	running.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "agent", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}
	require.NoError(s.t, s.admin.Status().Update(ctx, running))
	run.Status.PodName, run.Status.PodUID, run.Status.Phase = "reviewer-1", running.UID, hearthv1.PhaseRunning
	require.NoError(s.t, controller.Status().Update(ctx, run))
}

func (s *scene) secret(name, key string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Data: map[string][]byte{key: []byte(secret)}}
}

// nothing listens in any Pod.
func nothing(context.Context, string, string, int) (net.Conn, error) {
	return nil, syscall.ECONNREFUSED
}

func (s *scene) cluster(config *rest.Config) *doctor.Cluster {
	s.t.Helper()
	c, err := doctor.NewCluster(config, nothing)
	require.NoError(s.t, err)
	return c
}

func (s *scene) look(config *rest.Config, agent string) *doctor.Report {
	s.t.Helper()
	seen := doctor.Gather(s.t.Context(), s.cluster(config), doctor.Options{Namespace: s.namespace, System: system, Agent: agent, Version: "test", Now: time.Now})
	r := doctor.Diagnose(seen)
	text, err := json.Marshal(r)
	require.NoError(s.t, err)
	assert.NotContains(s.t, string(text), secret)
	assert.NotContains(s.t, string(text), goal)
	return r
}

// codes are what is broken or hinted at.
func codes(r *doctor.Report, of ...doctor.Status) (found []doctor.Code) {
	for _, f := range r.Findings {
		if slices.Contains(of, f.Status) && !slices.Contains(found, f.Code) {
			found = append(found, f.Code)
		}
	}
	return found
}

func said(r *doctor.Report) string {
	var out strings.Builder
	_ = doctor.Print(&out, r)
	return out.String()
}

// person may do what a role of ours says in the namespace.
func (s *scene) person(name, role string) *rest.Config {
	s.make(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}})
	return server.As(s.t, name)
}

// One cluster that is broken more and more, seen with the rights of an administrator, of somebody who may only view, and of nobody.
func TestTheDoctorAtARealAPIServer(t *testing.T) {
	s := newScene(t)
	admin, viewer := server.As(t, "root", "system:masters"), s.person("vera", "hearth-view")
	broken := []doctor.Status{doctor.StatusFail}

	t.Run("what is there is found in order, and the ports are closed", func(t *testing.T) {
		r := s.look(admin, "reviewer")
		assert.Equal(t, []doctor.Code{doctor.DeliveryClosed, doctor.ACPClosed}, codes(r, doctor.StatusFail, doctor.StatusHint), said(r))
		assert.Zero(t, r.Count(doctor.StatusNotChecked), said(r))
		assert.Equal(t, doctor.ExitBroken, r.ExitCode())
	})
	t.Run("who may view sees no error, what was not checked, and which rights that takes", func(t *testing.T) {
		r := s.look(viewer, "")
		assert.Empty(t, codes(r, broken...), said(r))
		assert.Equal(t, []doctor.Code{doctor.YourRights}, codes(r, doctor.StatusHint), said(r))
		assert.Equal(t, doctor.ExitOK, r.ExitCode())
		for _, words := range []string{
			`ok           crd fields       the CRDs have every field of this version`, `agent/reviewer: Ready is True (Standing)`,
			`not checked  controller       because you cannot list resource "deployments" in API group "apps" in the namespace "hearth-system"`,
			`not checked  webhooks         because you cannot get resource "mutatingwebhookconfigurations"`,
			`not checked  its rights       because you cannot create resource "subjectaccessreviews"`,
			`not checked  admission        because you cannot create resource "agentruns"`,
			`not checked  secret           run/reviewer-1: because you cannot get resource "secrets"`,
			`in namespace ` + s.namespace + ` you may not make runs`,
		} {
			assert.Contains(t, said(r), words)
		}
	})
	t.Run("who may nothing is told so", func(t *testing.T) {
		r := s.look(server.As(t, "nobody"), "")
		assert.Equal(t, doctor.ExitBlind, r.ExitCode(), said(r))
	})
	t.Run("an Agent that is not there", func(t *testing.T) {
		r := s.look(admin, "reviewers")
		assert.Equal(t, []doctor.Code{doctor.AgentMissing}, codes(r, broken...), said(r))
	})
	t.Run("the command", func(t *testing.T) {
		var out, errors bytes.Buffer
		run := func(args ...string) int {
			out.Reset()
			errors.Reset()
			env := kube.New("hearth", genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errors})
			return cli.Run(t.Context(), env, append([]string{"doctor", "--kubeconfig", apiserver.Kubeconfig(t, admin), "-n", s.namespace}, args...))
		}
		assert.Equal(t, doctor.ExitOK, run("reviewer"), "an API server without a kubelet forwards no port: %s%s", &out, &errors)
		assert.Contains(t, out.String(), "not checked  challenge        run/reviewer-1: because the port-forward failed")
		assert.Equal(t, doctor.ExitBroken, run("agent/reviewers", "-o", "json"))
		var report doctor.Report
		require.NoError(t, json.Unmarshal(out.Bytes(), &report), out.String())
		assert.Equal(t, []doctor.Code{doctor.AgentMissing}, codes(&report, broken...))
		assert.Contains(t, errors.String(), `the first broken link is "agent": there is no Agent reviewers in namespace `+s.namespace)
		assert.Equal(t, kube.ExitUsage, run("reviewer", "-o", "yaml"))
		assert.Equal(t, doctor.ExitBlind, run("--context", "none"))
	})
	t.Run("no API server", func(t *testing.T) {
		away := rest.CopyConfig(admin)
		away.Host = "https://127.0.0.1:1"
		r := s.look(away, "")
		assert.Equal(t, []doctor.Code{doctor.APIUnreachable}, codes(r, broken...), said(r))
		assert.Equal(t, doctor.ExitBlind, r.ExitCode())
	})
	t.Run("a test run", func(*testing.T) { s.testRun() })
	t.Run("webhooks that are not there", func(t *testing.T) {
		s.stop() // its caches would wait for kinds that are about to go
		require.NoError(t, s.admin.Delete(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "hearth-admission"}}))
		r := s.look(admin, "")
		assert.Contains(t, codes(r, broken...), doctor.WebhookMissing, said(r))
	})
	t.Run("a CRD that is older", func(t *testing.T) {
		crd := s.crd("agentruns.hearth.dev")
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		unstructured.RemoveNestedField(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "status", "properties", "cordonedAt")
		require.NoError(t, unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"))
		require.NoError(t, s.admin.Update(t.Context(), crd))
		r := s.look(admin, "")
		assert.Contains(t, codes(r, broken...), doctor.CRDOld)
		assert.Contains(t, said(r), "missing: status.cordonedAt")
		require.Eventually(t, func() bool { // what the API server publishes follows after a moment
			return slices.Contains(codes(s.look(viewer, ""), broken...), doctor.CRDOld)
		}, patience, tick)
	})
	t.Run("a CRD that is gone", func(t *testing.T) {
		require.NoError(t, s.admin.Delete(t.Context(), s.crd("agentruns.hearth.dev")))
		for _, who := range []*rest.Config{admin, viewer} {
			require.Eventually(t, func() bool { return slices.Contains(codes(s.look(who, ""), broken...), doctor.CRDMissing) }, patience, tick)
		}
		assert.Contains(t, said(s.look(admin, "")), `skipped      agent            because "kinds" is broken`)
	})
}

func (s *scene) crd(name string) *unstructured.Unstructured {
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	require.NoError(s.t, s.admin.Get(s.t.Context(), client.ObjectKey{Name: name}, crd))
	return crd
}

// testRun: --deliver says which parameters are missing, makes the run, tells its timeline, and keeps it.
func (s *scene) testRun() {
	t, c := s.t, s.cluster(server.As(s.t, "someone", "system:masters"))
	seen := doctor.Gather(t.Context(), c, doctor.Options{Namespace: s.namespace, System: system, Agent: "reviewer", Version: "test", Now: time.Now})
	deliver := func(parameters map[string]string, within time.Duration) *doctor.Report {
		r := &doctor.Report{}
		c.Deliver(t.Context(), seen, r, doctor.Test{Parameters: parameters, Within: within})
		return r
	}
	r := &doctor.Report{Findings: []doctor.Finding{{Check: "pod", Status: doctor.StatusFail}}}
	c.Deliver(t.Context(), seen, r, doctor.Test{})
	assert.Equal(t, doctor.StatusSkipped, r.Findings[1].Status)

	r = deliver(nil, time.Second)
	assert.Equal(t, []doctor.Code{doctor.ParametersMissing}, codes(r, doctor.StatusFail))
	assert.Contains(t, said(r), "change (what to review)")
	assert.Contains(t, said(r), "hearth doctor reviewer -n "+s.namespace+" --deliver -p change=…")

	r = deliver(map[string]string{"change": "x", "other": "confidential-value"}, time.Second)
	assert.Equal(t, []doctor.Code{doctor.TestRefused}, codes(r, doctor.StatusFail), said(r))
	assert.Contains(t, said(r), "UnusedParameters")
	assert.NotContains(t, said(r), "confidential-value")

	r = deliver(map[string]string{"change": "confidential-value"}, 100*time.Millisecond)
	assert.Equal(t, []doctor.Code{doctor.TestNotEnded}, codes(r, doctor.StatusFail), said(r))
	require.NotNil(t, r.Run)
	assert.Len(t, r.Run.Steps, 1)
	var stays hearthv1.AgentRun
	require.NoError(t, s.admin.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: r.Run.Name}, &stays), "nothing is deleted")
	require.NoError(t, s.admin.Delete(t.Context(), &stays))

	for reason, code := range map[string][]doctor.Code{hearthv1.ReasonCompleted: nil, hearthv1.ReasonTargetLost: {doctor.TestFailed}} {
		recorded := make(chan struct{})
		go func() { defer close(recorded); s.record(reason) }()
		r = deliver(map[string]string{"change": "confidential-value"}, patience)
		<-recorded
		assert.Equal(t, code, codes(r, doctor.StatusFail), said(r))
		assert.NotContains(t, said(r), "confidential-value")
		require.NotNil(t, r.Run)
		assert.Len(t, r.Run.Steps, 5, "made, reserved, accepted, started, ended")
	}
}

// record ends the next test run as the controller does.
func (s *scene) record(reason string) {
	controller, ctx := server.ControllerClient(s.t), s.t.Context()
	assert.Eventually(s.t, func() bool {
		var runs hearthv1.AgentRunList
		if controller.List(ctx, &runs, client.InNamespace(s.namespace)) != nil {
			return false
		}
		for _, run := range runs.Items {
			if !run.Delivered() || run.Ended() {
				continue
			}
			at := metav1.NowMicro()
			outcome, status := "Succeeded", metav1.ConditionTrue
			if reason != hearthv1.ReasonCompleted {
				outcome, status = "Failed", metav1.ConditionFalse
			}
			run.Status = hearthv1.AgentRunStatus{Phase: hearthv1.Phase(outcome), StartTime: &at, CompletionTime: &at, Outcome: outcome, Reason: reason, Message: "it said confidential-value",
				Delivery:   &hearthv1.DeliveryStatus{Attempt: 1, PodName: "reviewer-1", ReservedAt: &at, AcceptedAt: &at},
				Conditions: []metav1.Condition{{Type: hearthv1.AgentRunConditionSucceeded, Status: status, Reason: reason, LastTransitionTime: metav1.Now()}}}
			return controller.Status().Update(ctx, &run) == nil
		}
		return false
	}, patience, tick)
}
