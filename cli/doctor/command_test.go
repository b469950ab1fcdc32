package doctor

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/cli/kube"
)

func TestWhatTheCommandLineMayNotSay(t *testing.T) {
	for says, f := range map[string]flags{
		`-o: expected json or nothing, got "wide"`:           {output: "wide", timeout: time.Second},
		`-p: goes with --deliver`:                            {parameters: []string{"a=b"}, timeout: time.Second},
		`--timeout: expected a duration such as 2m, got 0s`:  {},
		`-p: expected NAME=VALUE, got "change" before the =`: {deliver: true, parameters: []string{"change"}, timeout: time.Second},
		`-p: expected NAME=VALUE, got "1" before the =`:      {deliver: true, parameters: []string{"1=x"}, timeout: time.Second},
		`-p: expected each parameter once, a is there twice`: {deliver: true, parameters: []string{"a=b", "a=c"}, timeout: time.Second},
	} {
		_, err := f.test("reviewer")
		require.EqualError(t, err, says)
		assert.Equal(t, kube.ExitUsage, kube.Code(err))
	}
	f := flags{deliver: true, timeout: time.Second, parameters: []string{"a=b=c", "d="}}
	_, err := f.test("")
	require.EqualError(t, err, "--deliver: expected an AGENT to deliver to")
	got, err := f.test("reviewer")
	require.NoError(t, err)
	assert.Equal(t, Test{Parameters: map[string]string{"a": "b=c", "d": ""}, Within: time.Second}, got)
}

// What admission, and others in its place, say to a dry run.
func TestWhatADryRunComesTo(t *testing.T) {
	runs := schema.GroupResource{Group: "hearth.dev", Resource: "agentruns"}
	for want, err := range map[Answer]error{
		AdmissionLets:        nil,
		AdmissionAnswers:     errors.New(`admission webhook "resolve.agentruns.hearth.dev" denied the request: [MissingAgent] spec.agentRef.name: expected an Agent`),
		AdmissionNotServed:   errors.New(`[NamespaceNotServed] metadata.namespace: expected`),
		AdmissionNotCalled:   apierrors.NewInternalError(errors.New(`failed calling webhook "resolve.agentruns.hearth.dev": no endpoints available for service "hearth-webhook"`)),
		AdmissionNotPossible: apierrors.NewForbidden(runs, "", errors.New(`User "vera" cannot create resource "agentruns"`)),
		AdmissionNotReached:  apierrors.NewForbidden(runs, "", errors.New(`some policy of yours`)),
	} {
		got := answered(err)
		assert.Equal(t, want, got.Answer, got.Words)
	}
	assert.Equal(t, `you cannot create resource "agentruns"`, answered(apierrors.NewForbidden(runs, "", errors.New(`User "vera" cannot create resource "agentruns"`))).Words)
}

// The parameters of an Agent that declares none are its template's.
func TestWhichParametersARunNeeds(t *testing.T) {
	a := hearthv1.Agent{}
	a.Spec.GoalTemplate = "Review ${change} for ${concern}; ${change}, $${literal}."
	assert.Equal(t, []string{"change", "concern"}, required(a))
	def := "x"
	a.Spec.Parameters = []hearthv1.Parameter{{Name: "change", Description: "which"}, {Name: "concern", Default: &def}}
	assert.Equal(t, []string{"change"}, required(a))
	assert.Equal(t, []string{"change (which)"}, lacking(a, nil))
	assert.Empty(t, lacking(a, map[string]string{"change": ""}))
}

// Flags are read as the controller's own flag package does.
func TestTheControllersFlags(t *testing.T) {
	for value, args := range map[string][]string{"a,b": {"--namespaces=a,b"}, "c": {"-namespaces", "c"}, "d": {"--namespaces=a", "--namespaces=d"}, "": {"--leader-elect", "--namespaces="}} {
		o := newWorld(t).healthy()
		o.Deployments.Value[0].Spec.Template.Spec.Containers[0].Args = args
		got, set := o.flag(flagNamespaces)
		assert.True(t, set)
		assert.Equal(t, value, got)
	}
	o := newWorld(t).healthy()
	o.Deployments.Value[0].Spec.Template.Spec.Containers[0].Args = []string{"--leader-elect=false"}
	assert.Equal(t, StatusOK, o.leader()[0].Status)
	assert.Contains(t, o.leader()[0].Says, "no election")
}
