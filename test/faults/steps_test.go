//go:build faults

package faults_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/apiserver"
	"github.com/hearthdev/hearth/test/faults/rig"
)

// workshop is a World in which examples/steps works, with Agents that wait in each step until the test lets them go on.
type workshop struct {
	*rig.World
	t      *testing.T
	binary string
	files  string // <problem>-<step> lets a step end
}

// told are the parameters of each step beside the problem.
var told = map[string]string{"analyze": "", "execute": "analysis verdict", "verify": "change", "escalate": "history"}

// steps builds the operator once.
var steps = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "steps-")
	if err != nil {
		return "", err
	}
	out, err := exec.Command("go", "build", "-o", dir+"/", "github.com/hearthdev/hearth/examples/steps").CombinedOutput() //nolint:noctx // bounded by the test's time
	if err != nil {
		return "", &exec.Error{Name: string(out), Err: err}
	}
	return filepath.Join(dir, "steps"), nil
})

func newWorkshop(t *testing.T) *workshop {
	t.Helper()
	binary, err := steps()
	require.NoError(t, err)
	s := &workshop{World: rig.New(t, rig.Options{}), t: t, binary: binary, files: t.TempDir()}
	s.Controller()
	for _, file := range []string{"crd", "operator"} {
		s.kubectl("apply", "--server-side", "--force-conflicts", "-f", "../../examples/steps/config/"+file+".yaml")
	}
	for step, says := range map[string]string{"analyze": "the pool is too small", "execute": "did what was said: ${analysis}",
		"verify": `{"fixed": false}`, "escalate": "told people: ${history}"} {
		s.Agent(step, func(a *hearthv1.Agent) {
			a.Spec.GoalTemplate = "wait: " + s.files + "/${problem}-" + step + " ;; say: " + says
			a.Spec.Parameters = []hearthv1.Parameter{{Name: "problem"}}
			for _, name := range strings.Fields(told[step]) {
				a.Spec.Parameters = append(a.Spec.Parameters, hearthv1.Parameter{Name: name})
			}
		})
	}
	for step := range told {
		s.Ready(step, 1)
	}
	return s
}

func (s *workshop) kubectl(args ...string) {
	s.t.Helper()
	kubectl := exec.CommandContext(s.t.Context(), filepath.Join(os.Getenv(apiserver.AssetsEnv), "kubectl"),
		append([]string{"--kubeconfig", apiserver.Kubeconfig(s.t, s.Config), "-n", s.Namespace}, args...)...)
	out, err := kubectl.CombinedOutput()
	require.NoError(s.t, err, string(out))
}

// operator starts one with the rights of its manifest; kill is SIGKILL.
func (s *workshop) operator() (kill func()) {
	s.t.Helper()
	config := rest.CopyConfig(s.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + s.Namespace + ":steps", Groups: []string{"system:authenticated"}}
	command := exec.Command(s.binary, "--namespace", s.Namespace) //nolint:noctx // the test kills it
	command.Env = append(os.Environ(), "KUBECONFIG="+apiserver.Kubeconfig(s.t, config))
	var log bytes.Buffer
	command.Stdout, command.Stderr = &log, &log
	require.NoError(s.t, command.Start())
	kill = sync.OnceFunc(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if s.t.Failed() {
			s.t.Log("operator:\n" + log.String())
		}
	})
	s.t.Cleanup(kill)
	return kill
}

// ask makes a Remediation; its problem is its name, which says what its steps wait for.
func (s *workshop) ask(name string, attempts int64) *unstructured.Unstructured {
	s.t.Helper()
	r := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"problem": name, "attempts": attempts}}}
	r.SetGroupVersionKind(schema.GroupVersionKind{Group: "examples.hearth.dev", Version: "v1alpha1", Kind: "Remediation"})
	r.SetNamespace(s.Namespace)
	r.SetName(name)
	require.NoError(s.t, s.Admin.Create(s.t.Context(), r))
	return r
}

// phase is the Remediation's, "" where it has none yet and "gone" where it is none.
func (s *workshop) phase(r *unstructured.Unstructured) string {
	s.t.Helper()
	err := s.Admin.Get(s.t.Context(), client.ObjectKeyFromObject(r), r)
	if apierrors.IsNotFound(err) {
		return "gone"
	}
	require.NoError(s.t, err)
	phase, _, _ := unstructured.NestedString(r.Object, "status", "phase")
	return phase
}

// begun waits for a step's run.
func (s *workshop) begun(r *unstructured.Unstructured, step string) *hearthv1.AgentRun {
	s.t.Helper()
	run := &hearthv1.AgentRun{}
	key := client.ObjectKey{Namespace: s.Namespace, Name: step + "-" + string(r.GetUID())}
	s.Eventually("the run of "+step, func() bool { return s.Admin.Get(s.t.Context(), key, run) == nil })
	return run
}

// started waits until an agent is at a run.
func (s *workshop) started(run *hearthv1.AgentRun) {
	s.t.Helper()
	s.Eventually("the start of "+run.Name, func() bool { return len(s.EffectsOf(run)) > 0 })
}

func (s *workshop) let(name string, steps ...string) {
	s.t.Helper()
	for _, step := range steps {
		require.NoError(s.t, os.WriteFile(filepath.Join(s.files, name+"-"+step), nil, 0o600))
	}
}

var allSteps = []string{"analyze-1", "execute-1", "verify-1", "execute-2", "verify-2", "escalate-1"}

// did asserts that each of these steps of a Remediation had one effect, in this order, and that there was none beside them.
func (s *workshop) did(name string, steps ...string) {
	s.t.Helper()
	var got []string
	for _, e := range s.Effects() {
		_, rest, of := strings.Cut(e.Goal, "/"+name+"-")
		if of {
			step, _, _ := strings.Cut(rest, " ")
			got = append(got, step)
			assert.EqualValues(s.t, 1, e.Attempt)
		}
	}
	var want []string
	for _, step := range steps {
		want = append(want, strings.TrimRight(step, "-12"))
	}
	assert.Equal(s.t, want, got)
}

// R44: the operator is killed as soon as a step's run is there, and again while an agent is at it; the step ends while no operator is there.
func TestStepsKilledAtEachStepDoesEachOnce(t *testing.T) {
	t.Parallel()
	s := newWorkshop(t)
	r := s.ask("shop", 2)
	for _, step := range allSteps {
		kill := s.operator()
		run := s.begun(r, step)
		kill()
		kill = s.operator()
		s.started(run)
		kill()
		file := filepath.Join(s.files, "shop-"+run.Spec.AgentRef.Name)
		s.let("shop", run.Spec.AgentRef.Name)
		s.Await(run, "Succeeded")
		require.NoError(t, os.Remove(file), "the next attempt waits, too")
	}
	s.operator()
	s.Eventually("people are told", func() bool { return s.phase(r) == "Escalated" })
	s.did("shop", allSteps...)
	assert.Contains(t, s.begun(r, "escalate-1").Status.Output.Value, "analyze 1: Completed: the pool is too small")
	assert.Equal(t, "did what was said: the pool is too small", s.begun(r, "execute-2").Status.Output.Value)
}

// R44: at any instant, with several at once.
func TestStepsKilledAtAnyInstantDoesEachOnce(t *testing.T) {
	t.Parallel()
	rig.Slow(t)
	s := newWorkshop(t)
	var all []*unstructured.Unstructured
	for _, name := range []string{"red", "green", "blue"} {
		s.let(name, "analyze", "execute", "verify", "escalate")
		all = append(all, s.ask(name, 2))
	}
	kills := 0
	s.Eventually("all have ended", func() bool {
		kill := s.operator()
		time.Sleep(time.Duration(rand.IntN(1500+100*kills)) * time.Millisecond) //nolint:gosec // any instant, later ones where it starts slowly
		kill()
		kills++
		for _, r := range all {
			if s.phase(r) != "Escalated" {
				return false
			}
		}
		return true
	})
	t.Log(kills, "operators were killed")
	for _, r := range all {
		s.did(r.GetName(), allSteps...)
	}
}

// R44, R42, I4: deleted in the middle of each step, with and without an operator there. It is gone at once, its run goes, what the agent
// does for it is stopped, and nothing is begun for it any more.
func TestStepsDeletedInTheMiddleIsGoneAtOnceAndItsAgentStops(t *testing.T) {
	t.Parallel()
	s := newWorkshop(t)
	sequence := []string{"analyze", "execute", "verify", "escalate"}
	for _, there := range []bool{true, false} {
		for i, step := range sequence {
			kill := s.operator()
			name := fmt.Sprintf("shop-%s-%t", step, there)
			s.let(name, sequence[:i]...)
			r := s.ask(name, 1)
			run := s.begun(r, step+"-1")
			s.started(run)
			if !there {
				kill()
			}
			require.NoError(t, s.Admin.Delete(t.Context(), r.DeepCopy()))
			require.Equal(t, "gone", s.phase(r), "nothing holds it")
			s.Gone(run)
			s.Await(s.probe(step), "Succeeded") // the agent's one place is free
			if !there {
				s.operator()
			}
		}
	}
	for _, there := range []bool{true, false} {
		for i, step := range sequence {
			s.did(fmt.Sprintf("shop-%s-%t", step, there), sequence[:i+1]...)
		}
	}
}

// probe is a run of somebody else that ends as soon as it is begun.
func (s *workshop) probe(step string) *hearthv1.AgentRun {
	s.t.Helper()
	s.let("probe", step)
	run := &hearthv1.AgentRun{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, GenerateName: "probe-"}, Spec: hearthv1.AgentRunSpec{
		AgentRef: hearthv1.AgentRef{Name: step}, Parameters: map[string]string{"problem": "probe"}}}
	for _, name := range strings.Fields(told[step]) {
		run.Spec.Parameters[name] = ""
	}
	require.NoError(s.t, s.User.Create(s.t.Context(), run))
	return run
}
