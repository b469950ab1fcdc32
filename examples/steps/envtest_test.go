package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/admission"
	"github.com/hearthdev/hearth/test/apiserver"
	"github.com/hearthdev/hearth/test/apiserver/webhooks"
)

var apis = apiserver.New(apiserver.Options{Webhooks: true})

func TestMain(m *testing.M) { os.Exit(apis.Main(m)) }

const (
	patience = time.Minute
	beat     = 20 * time.Millisecond
)

// shop is a namespace of a real API server with what README.md applies. Admission is the real one; the test plays the rest of Hearth.
type shop struct {
	t         *testing.T
	namespace string
	binary    string
	admin     client.WithWatch
	mu        sync.Mutex
	seen      map[string][]types.UID // the runs that were ever there, by name
}

func newShop(t *testing.T, binary string) *shop {
	t.Helper()
	admin, err := client.NewWithWatch(apis.Admin(t), client.Options{Scheme: scheme()})
	require.NoError(t, err)
	s := &shop{t: t, namespace: apis.Namespace(t), binary: binary, admin: admin, seen: map[string][]types.UID{}}
	for _, file := range []string{"operator", "agents"} {
		apis.Kubectl(t, "apply", "-n", s.namespace, "-f", "examples/steps/config/"+file+".yaml")
	}
	runs, err := s.admin.Watch(t.Context(), &hearthv1.AgentRunList{}, client.InNamespace(s.namespace))
	require.NoError(t, err)
	go func() {
		for event := range runs.ResultChan() {
			if run, ok := event.Object.(*hearthv1.AgentRun); ok && event.Type == watch.Added {
				s.mu.Lock()
				s.seen[run.Name] = append(s.seen[run.Name], run.UID)
				s.mu.Unlock()
			}
		}
	}()
	return s
}

// operator starts the binary with the rights of operator.yaml and no others.
func (s *shop) operator() (kill func()) {
	s.t.Helper()
	user := "system:serviceaccount:" + s.namespace + ":steps"
	config := apiserver.Kubeconfig(s.t, apis.As(s.t, user, "system:serviceaccounts", "system:serviceaccounts:"+s.namespace))
	command := exec.Command(s.binary, "--namespace", s.namespace) //nolint:noctx // it is killed by the test
	command.Env = append(os.Environ(), "KUBECONFIG="+config)
	var log bytes.Buffer
	command.Stdout, command.Stderr = &log, &log
	require.NoError(s.t, command.Start())
	var once sync.Once
	kill = func() {
		once.Do(func() {
			_ = command.Process.Kill()
			_ = command.Wait()
			assert.NotContains(s.t, log.String(), " is forbidden: User ", "operator.yaml has all that it needs")
		})
	}
	s.t.Cleanup(kill)
	return kill
}

func (s *shop) ask(attempts int32) *Remediation {
	s.t.Helper()
	r := &Remediation{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "checkout"}, Spec: Spec{Problem: "Checkout answers 500.", Attempts: attempts}}
	require.NoError(s.t, s.admin.Create(s.t.Context(), r))
	return r
}

func (s *shop) until(what string, ok func() bool) {
	s.t.Helper()
	require.Eventually(s.t, ok, patience, beat, what)
}

func (s *shop) status(r *Remediation) Status {
	s.t.Helper()
	var now Remediation
	require.NoError(s.t, s.admin.Get(s.t.Context(), client.ObjectKeyFromObject(r), &now))
	return now.Status
}

// begun waits for a step's run.
func (s *shop) begun(r *Remediation, step string) *hearthv1.AgentRun {
	s.t.Helper()
	run := &hearthv1.AgentRun{}
	s.until(step+" is begun", func() bool {
		return s.admin.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: step + "-" + string(r.UID)}, run) == nil
	})
	return run
}

// end is Hearth's record of a run.
func (s *shop) end(run *hearthv1.AgentRun, phase hearthv1.Phase, reason, output string) {
	s.t.Helper()
	run.Status.Phase, run.Status.Reason, run.Status.CompletionTime = phase, reason, new(metav1.NowMicro())
	run.Status.Output = &hearthv1.Output{MediaType: "text/plain", Value: output}
	require.NoError(s.t, apis.ControllerClient(s.t).Status().Update(s.t.Context(), run))
}

// once asserts that each of these steps had one run, ever, and nothing else had one.
func (s *shop) once(r *Remediation, steps ...string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for name, uids := range s.seen {
		names = append(names, strings.TrimSuffix(name, "-"+string(r.UID)))
		assert.Len(s.t, uids, 1, name)
	}
	slices.Sort(names)
	slices.Sort(steps)
	assert.Equal(s.t, steps, names)
}

func TestOnARealAPIServer(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "steps")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	apis.Kubectl(t, "apply", "-f", "examples/steps/config/crd.yaml") // once: two that create it at the same time get in each other's way
	webhooks.Serve(t, apis, admission.Options{}, nil)
	t.Run("all", func(t *testing.T) { // admission is served until the last has ended
		for name, check := range map[string]func(*testing.T, *shop){
			"killed at each step it goes on where it was": killedAtEachStepItGoesOnWhereItWas,
			"two operators at once do nothing twice":      twoOperatorsAtOnceDoNothingTwice,
			"deleted in the middle it is gone at once":    deletedInTheMiddleItIsGoneAtOnce,
			"a missing Agent is said and waited for":      aMissingAgentIsSaidAndWaitedFor,
			"a spec does not change":                      aSpecDoesNotChange,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				check(t, newShop(t, binary))
			})
		}
	})
}

// R44, R21, R31: the operator is a process with the rights of operator.yaml, runs are admitted, and it is killed twice a step: as soon as
// the run is there, and while it is under way, so that its end falls into the operator's absence.
func killedAtEachStepItGoesOnWhereItWas(t *testing.T, s *shop) {
	r := s.ask(2)
	said := map[string]string{"analyze-1": "the pool is too small", "execute-1": "made it larger", "verify-1": no, "execute-2": "made it larger still", "verify-2": no, "escalate-1": "ticket 7"}
	for _, step := range []string{"analyze-1", "execute-1", "verify-1", "execute-2", "verify-2", "escalate-1"} {
		kill := s.operator()
		run := s.begun(r, step)
		kill()
		kill = s.operator()
		s.until("its UID is noted", func() bool { steps := s.status(r).Steps; return len(steps) > 0 && steps[len(steps)-1].UID == run.UID })
		kill()
		assert.Equal(t, strings.TrimRight(step, "-12"), run.Spec.AgentRef.Name)
		assert.NotEmpty(t, run.Spec.AgentRef.UID, "it was resolved from its Agent")
		assert.True(t, metav1.IsControlledBy(run, r))
		s.end(run, hearthv1.PhaseSucceeded, hearthv1.ReasonCompleted, said[step])
	}
	s.operator()
	s.until("people are told", func() bool { return s.status(r).Phase == escalated })
	s.once(r, "analyze-1", "execute-1", "verify-1", "execute-2", "verify-2", "escalate-1")
	assert.Contains(t, s.begun(r, "execute-2").Spec.Goal, "Somebody looked at it and says: the pool is too small")
	assert.Contains(t, s.begun(r, "execute-2").Spec.Goal, "it still answers 500", "the verdict is passed on")
	assert.Contains(t, s.begun(r, "escalate-1").Spec.Goal, "execute 2: Completed: made it larger still")
	assert.NotNil(t, s.begun(r, "escalate-1").Spec.Template, "an Agent of mode Task, which the workflow need not know")
	table := apis.Kubectl(t, "get", "-n", s.namespace, "remediations")
	assert.Regexp(t, `checkout +Escalated`, table)
}

// Two at once, as when a Deployment is rolled: names and resource versions settle it.
func twoOperatorsAtOnceDoNothingTwice(t *testing.T, s *shop) {
	s.operator()
	s.operator()
	r := s.ask(1)
	for _, step := range [][2]string{{"analyze-1", "the pool"}, {"execute-1", "larger"}, {"verify-1", yes}} {
		s.end(s.begun(r, step[0]), hearthv1.PhaseSucceeded, hearthv1.ReasonCompleted, step[1])
	}
	s.until("it is resolved", func() bool { return s.status(r).Phase == resolved })
	s.once(r, "analyze-1", "execute-1", "verify-1")
}

// Deleted in the middle it is gone at once: nothing holds it, and nothing is begun for it any more.
func deletedInTheMiddleItIsGoneAtOnce(t *testing.T, s *shop) {
	kill := s.operator()
	r := s.ask(1)
	run := s.begun(r, "analyze-1")
	require.NoError(t, s.admin.Delete(t.Context(), r.DeepCopy()))
	require.True(t, apierrors.IsNotFound(s.admin.Get(t.Context(), client.ObjectKeyFromObject(r), &Remediation{})))
	s.end(run, hearthv1.PhaseSucceeded, hearthv1.ReasonCompleted, "the pool")
	kill()
	s.operator()
	other := s.ask(1) // of the same name: another one
	s.begun(other, "analyze-1")
	s.mu.Lock()
	defer s.mu.Unlock()
	assert.NotContains(t, s.seen, fmt.Sprintf("execute-1-%s", r.UID))
}

// A refusal of admission is said, and overcome when its cause is.
func aMissingAgentIsSaidAndWaitedFor(t *testing.T, s *shop) {
	apis.Kubectl(t, "delete", "-n", s.namespace, "agent", "analyze")
	s.operator()
	r := s.ask(1)
	s.until("it is said", func() bool { return strings.Contains(s.status(r).Message, `there is no "analyze"`) })
	version := func() string {
		var now Remediation
		require.NoError(t, s.admin.Get(t.Context(), client.ObjectKeyFromObject(r), &now))
		return now.ResourceVersion
	}
	said := version()
	apis.Kubectl(t, "annotate", "-n", s.namespace, "agent", "execute", "example=1") // time for some tries
	assert.Equal(t, said, version(), "it does not wake itself by saying it again")
	apis.Kubectl(t, "apply", "-n", s.namespace, "-f", "examples/steps/config/agents.yaml")
	s.begun(r, "analyze-1")
	s.until("nothing hinders it", func() bool { return s.status(r).Message == "" })
}

func aSpecDoesNotChange(t *testing.T, s *shop) {
	apis.Kubectl(t, "apply", "-n", s.namespace, "-f", "examples/steps/config/sample.yaml")
	var r Remediation
	require.NoError(t, s.admin.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "checkout"}, &r))
	r.Spec.Problem = "Something else."
	require.ErrorContains(t, s.admin.Update(t.Context(), &r), "make another Remediation")
}
