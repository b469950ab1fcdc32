//go:build e2e

package e2e

import (
	"encoding/json"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/cli/doctor"
)

// TestDoctor: what a person breaks is what hearth doctor says, in kubelet's words, and a healthy Agent takes a test run (R55).
func TestDoctor(t *testing.T) {
	t.Parallel()
	binary := commandLine(t)
	r := newRoom(t, "doctor")
	r.readyAgent(reviewer, nil)

	healthy := r.doctor(binary, reviewer)
	assert.Empty(t, failed(healthy), "%+v", healthy.Findings)
	assert.Zero(t, healthy.Count(doctor.StatusNotChecked), "an administrator may look at everything: %+v", healthy.Findings)
	tested := r.doctor(binary, reviewer, "--deliver", "-p", "task=say: hello")
	assert.Empty(t, failed(tested), "%+v", tested.Findings)
	require.NotNil(t, tested.Run)
	assert.Equal(t, "Succeeded", tested.Run.Outcome)
	assert.Equal(t, tested.Run.Name, r.ended(tested.Run.Name, shortly).Name, "it stays")
	assert.Contains(t, failed(r.doctor(binary, reviewer, "--system-namespace", r.namespace)), doctor.ControllerMissing)

	broken := map[string]struct {
		change func(*hearthv1.AgentSpec)
		code   doctor.Code
		saw    string
	}{
		"image":   {func(s *hearthv1.AgentSpec) { s.Template.Spec.Containers[0].Image = missingImage }, doctor.PodImage, missingImage},
		"name":    {func(s *hearthv1.AgentSpec) { s.Template.Spec.Containers[0].Image = "localhost/No:Such:Name" }, doctor.PodImage, "InvalidImageName"},
		"command": {func(s *hearthv1.AgentSpec) { s.Runtime.Command = []string{"no-such-agent"} }, doctor.PodCrashes, "no-such-agent"},
		"node":    {func(s *hearthv1.AgentSpec) { s.Template.Spec.NodeSelector = map[string]string{"no-such-label": "none"} }, doctor.PodNotScheduled, "node affinity"},
		"secret": {func(s *hearthv1.AgentSpec) {
			s.Template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "no-such-secret"}}}}
		}, doctor.PodConfig, "no-such-secret"},
	}
	for name, c := range broken {
		r.agent(name, c.change)
	}
	for name, c := range broken {
		r.finds(binary, name, c.saw, c.code)
	}
}

// Keys that somebody deleted are named. (A Secret of a standing run is replaced with its run before anybody can look.)
func TestDoctorAfterKeysWereDeleted(t *testing.T) {
	t.Parallel()
	binary := commandLine(t)
	r := newRoom(t, "doctor-keys")
	r.readyAgent(reviewer, nil)
	require.NoError(t, suite.Client.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: reviewer + "-acp-view"}}))
	r.finds(binary, reviewer, "", doctor.KeysMissing)
}

// doctor is hearth doctor with the administrator's rights.
func (r *room) doctor(binary, agent string, more ...string) *doctor.Report {
	r.t.Helper()
	command := exec.CommandContext(r.t.Context(), binary, append([]string{"doctor", agent, "-o", "json", "-n", r.namespace, "--kubeconfig", suite.Kubeconfig, "--timeout", time.Minute.String()}, more...)...)
	out, err := command.Output()
	var report doctor.Report
	require.NoError(r.t, json.Unmarshal(out, &report), "%v: %s", err, out)
	assert.Equal(r.t, report.ExitCode(), command.ProcessState.ExitCode())
	return &report
}

// finds waits until the doctor gives one of the codes, with these words among what it saw.
func (r *room) finds(binary, agent, saw string, codes ...doctor.Code) {
	r.t.Helper()
	var last *doctor.Report
	require.Eventually(r.t, func() bool {
		last = r.doctor(binary, agent)
		return slices.ContainsFunc(last.Findings, func(f doctor.Finding) bool {
			return slices.Contains(codes, f.Code) && containsAll(f.Saw, []string{saw}) && len(f.Do) > 0
		})
	}, patiently, time.Second, "Agent %s: %v", agent, codes)
}

func failed(r *doctor.Report) (codes []doctor.Code) {
	for _, f := range r.Findings {
		if f.Status == doctor.StatusFail {
			codes = append(codes, f.Code)
		}
	}
	return codes
}
