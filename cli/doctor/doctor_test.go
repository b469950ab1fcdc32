package doctor

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

var update = flag.Bool("update", false, "write testdata and the table of docs/doctor.md")

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), got, "go test ./cli/doctor -update writes it")
}

func printed(t *testing.T, r *Report) string {
	t.Helper()
	var out strings.Builder
	require.NoError(t, Print(&out, r))
	return out.String()
}

// What a person sees when nothing is wrong.
func TestAHealthyInstallationIsOKInEachLink(t *testing.T) {
	r := Diagnose(newWorld(t).healthy())
	for _, f := range r.Findings {
		assert.Equal(t, StatusOK, f.Status, f)
	}
	assert.Equal(t, ExitOK, r.ExitCode())
	golden(t, "testdata/healthy.txt", printed(t, r))
}

// Each way that something is broken: what is said, in words; that what depends on it is skipped; and that nothing else is blamed.
func TestEachBreakIsSaidOnceInTheseWords(t *testing.T) {
	w := newWorld(t)
	var all strings.Builder
	for _, b := range breaks {
		o := w.healthy()
		b.do(w, &o)
		r := Diagnose(o)
		codes := map[Code]int{}
		said := &Report{}
		for _, f := range r.Findings {
			if f.Status == StatusFail || f.Status == StatusHint {
				codes[f.Code]++
				said.Findings = append(said.Findings, f)
				assert.NotEmpty(t, f.Do, "%s says what to do", f.Code)
				assert.Equal(t, catalogue[f.Code].See, f.See)
			}
			if f.Status == StatusSkipped {
				said.Findings = append(said.Findings, f)
			}
		}
		assert.NotZero(t, codes[b.code], "%s %s: %v", b.code, b.name, codes)
		for code := range codes {
			if code != b.code && !slices.Contains(beside[b.code], code) {
				t.Errorf("%s %s: %s is blamed too", b.code, b.name, code)
			}
		}
		fmt.Fprintf(&all, "== %s\n%s\n", strings.TrimSpace(string(b.code)+" "+b.name), printed(t, said))
	}
	golden(t, "testdata/findings.txt", all.String())
}

// beside are codes that the same break gives besides: the same seen from elsewhere.
var beside = map[Code][]Code{
	ControllerCutOff:     {AgentNotReady},
	DeliveryIncompatible: {AgentNotReady},
}

// Every code is in the table of breaks, or is one of the test run's.
func TestEveryCodeHasABreak(t *testing.T) {
	seen := map[Code]bool{ParametersMissing: true, TestRefused: true, TestFailed: true, TestNotEnded: true} // TestTheTestRun…
	for _, b := range breaks {
		seen[b.code] = true
	}
	for _, code := range Codes() {
		assert.True(t, seen[code], code)
		assert.Contains(t, order, catalogue[code].Check, code)
	}
	assert.Len(t, Codes(), len(seen))
}

// A right that is missing breaks nothing: what cannot be read says why, and the rest goes on.
func TestWhatCannotBeReadIsNotChecked(t *testing.T) {
	const why = `you cannot get resource "x"`
	o := newWorld(t).healthy()
	blind := reflect.ValueOf(&o).Elem()
	for _, name := range []string{"Kinds", "Deployments", "SystemPods", "Lease", "Service", "Slices", "Certificate", "ControllerMay", "YouMay", "Runs"} {
		f := blind.FieldByName(name)
		f.SetZero()
		f.FieldByName("Why").SetString(why)
	}
	o.Fields["Agent"] = Read[Schema]{Why: why}
	for i := range o.Webhooks {
		o.Webhooks[i].Read = Read[[]Hook]{Why: why}
	}
	o.Admission = Admission{Words: why}
	a := &o.Agents.Value[0]
	a.Policies.Why, a.Keys["reviewer-acp-view"], a.Keys["reviewer-acp-steer"] = why, Read[int]{Why: why}, Read[int]{Why: why}
	a.Pods[0].Secret, a.Pods[0].Challenge, a.Pods[0].ACP, a.Pods[0].Pod = Read[int]{Why: why}, Probe{Words: why}, Probe{Words: why}, Read[corev1.Pod]{Why: why}
	r := Diagnose(o)
	for _, f := range r.Findings {
		assert.NotEqual(t, StatusFail, f.Status, f)
		assert.NotEqual(t, StatusSkipped, f.Status, f)
	}
	assert.Equal(t, ExitOK, r.ExitCode(), "the Agent and its runs were seen")
	golden(t, "testdata/blind.txt", printed(t, r))

	o = newWorld(t).healthy()
	o.Runs.Why = why
	assert.Equal(t, ExitBlind, Diagnose(o).ExitCode(), "what everything hangs on was not seen")
	o = newWorld(t).healthy()
	o.API.Why = why
	assert.Equal(t, ExitBlind, Diagnose(o).ExitCode(), "nothing was")
	o = newWorld(t).healthy()
	o.Admission = Admission{Answer: AdmissionLets}
	assert.Equal(t, ExitBroken, Diagnose(o).ExitCode())
}

// blinded gives what was seen with each thing in turn that the API server kept back, and at last with all of them.
func blinded(seen func() Observed, why string) (all []Observed) {
	for n := 0; ; n++ {
		o, i := seen(), 0
		hide := func(read reflect.Value) {
			if i++; i-1 == n {
				read.SetZero()
				read.FieldByName("Why").SetString(why)
			}
		}
		eachRead(reflect.ValueOf(&o).Elem(), hide)
		all = append(all, o)
		if n >= i {
			o = seen()
			eachRead(reflect.ValueOf(&o).Elem(), func(read reflect.Value) {
				read.SetZero()
				read.FieldByName("Why").SetString(why)
			})
			return append(all, o)
		}
	}
}

// eachRead finds what was read, in the lists of what was read, too.
func eachRead(v reflect.Value, look func(reflect.Value)) {
	switch v.Kind() {
	case reflect.Struct:
		isRead := v.FieldByName("Absent").IsValid()
		for i := range v.NumField() {
			if strings.HasPrefix(v.Type().PkgPath(), "github.com/hearthdev/hearth/cli/doctor") {
				eachRead(v.Field(i), look)
			}
		}
		if isRead {
			look(v)
		}
	case reflect.Slice:
		for i := range v.Len() {
			eachRead(v.Index(i), look)
		}
	default:
	}
}

// Whatever was kept back, and whatever else is broken: what is not checked says why, and which right it is that is missing.
func TestWhatIsNotCheckedAlwaysSaysWhy(t *testing.T) {
	const why = `you cannot get resource "x"`
	w := newWorld(t)
	unasked := broken{do: func(_ *world, o *Observed) {}}
	for _, b := range append([]broken{unasked}, breaks...) {
		blind := blinded(func() Observed {
			o := w.healthy()
			b.do(w, &o)
			for i := range o.Agents.Value {
				for j := range o.Agents.Value[i].Pods {
					p := &o.Agents.Value[i].Pods[j]
					p.Challenge, p.ACP = Probe{}, Probe{} // nothing is asked of a Pod that was not seen
				}
			}
			return o
		}, why)
		require.Greater(t, len(blind), 10)
		for _, o := range blind {
			for _, f := range Diagnose(o).Findings {
				assert.NotEqual(t, "because", strings.TrimSpace(f.Says), "%s %s: %+v", b.code, b.name, f)
				assert.False(t, strings.HasSuffix(f.Says, " "), "%s %s: %+v", b.code, b.name, f)
			}
		}
	}
	o := w.healthy()
	p := &o.Agents.Value[0].Pods[0]
	p.Pod, p.Challenge, p.ACP = Read[corev1.Pod]{Why: why}, Probe{}, Probe{}
	for _, f := range Diagnose(o).Findings {
		if f.About == "run/reviewer-1" && f.Check != linkSecret && f.Check != linkContact {
			assert.Equal(t, notChecked(why).Says, f.Says, f.Check)
		}
	}
}

// An Agent that is not ready because of a Pod is a symptom: the last line names what the Pod lacks.
func TestTheFirstBrokenLinkIsTheCause(t *testing.T) {
	diagnosed := func(do ...func(o *Observed, a *AgentSeen)) *Report {
		o := newWorld(t).healthy()
		notReady(&o.Agents.Value[0], hearthv1.ReasonNotListening, "reviewer-1: container agent: ErrImagePull")
		for _, each := range do {
			each(&o, &o.Agents.Value[0])
		}
		return Diagnose(o)
	}
	pod := func(_ *Observed, a *AgentSeen) { unready(&a.Pods[0], container("ErrImagePull", "not found", nil)) }
	assert.Equal(t, `the first broken link is "pod": an image of Pod reviewer-1 cannot be pulled`, diagnosed(pod).first())
	assert.Equal(t, `the first broken link is "ready": Ready is False: NotListening`, diagnosed().first(), "nothing says why")
	other := func(o *Observed, a *AgentSeen) {
		second := agentSeen()
		second.Name, second.Pods[0].Run.Name = "writer", "writer-1"
		unready(&second.Pods[0], container("ErrImagePull", "not found", nil))
		o.Agents.Value = append(o.Agents.Value, second)
	}
	assert.Equal(t, `the first broken link is "ready": Ready is False: NotListening`, diagnosed(other).first(), "another Agent's Pod is no cause")
	before := func(o *Observed, _ *AgentSeen) { o.ControllerMay.Value[0].Allowed = false }
	assert.Contains(t, diagnosed(before, pod).first(), `the first broken link is "its rights"`, "what comes before is")
}

// Only what depends on the broken link is skipped: of two Pods the other is looked at.
func TestABrokenPodLeavesTheOthersToBeLookedAt(t *testing.T) {
	o := newWorld(t).healthy()
	second := o.Agents.Value[0].Pods[0]
	second.Run = *second.Run.DeepCopy()
	second.Run.Name = "reviewer-2"
	second.Pod = Got(*second.Pod.Value.DeepCopy())
	second.Pod.Value.Labels[hearthv1.LabelRun] = "reviewer-2"
	o.Agents.Value[0].Pods = append(o.Agents.Value[0].Pods, second)
	unready(&o.Agents.Value[0].Pods[0], container("CrashLoopBackOff", "", exited))
	status := map[string]Status{}
	for _, f := range Diagnose(o).Findings {
		status[f.About+" "+f.Check] = f.Status
	}
	assert.Equal(t, StatusFail, status["run/reviewer-1 pod"])
	assert.Equal(t, StatusSkipped, status["run/reviewer-1 challenge"])
	assert.Equal(t, StatusOK, status["run/reviewer-1 secret"])
	assert.Equal(t, StatusOK, status["run/reviewer-2 challenge"])
	assert.Equal(t, StatusOK, status["run/reviewer-2 acp"])
}

// Words of others are one line without commands for a terminal, and bounded.
func TestOthersWordsAreCleanAndBounded(t *testing.T) {
	assert.Equal(t, "a [31mb c", oneLine("a\n\x1b[31mb\tc\n", 100))
	long := oneLine(strings.Repeat("ä", 1000)+"the end", maxSaw)
	assert.LessOrEqual(t, len(long), maxSaw+len("…"))
	assert.True(t, strings.HasSuffix(long, "the end"))
	assert.Equal(t, "key (redacted)!", scrubbed("key 0123456789!", "0123456789", "", "y"))
}

func TestFieldsThatTheAPIServerDropsAreNamed(t *testing.T) {
	w := newWorld(t)
	for _, k := range kinds {
		assert.Empty(t, pruned(k.known, w.schemas[k.kind]), "config/crd has them all")
	}
	run := kinds[1]
	lost := pruned(run.known, without(w.schemas["AgentRun"], "properties", "status", "properties", "cordonedAt"))
	assert.Equal(t, []string{"status.cordonedAt"}, lost)
	lost = pruned(kinds[0].known, without(w.schemas["Agent"], "properties", "spec", "properties", "parameters", "items", "properties", "default"))
	assert.Equal(t, []string{"spec.parameters[].default"}, lost)
	assert.Equal(t, []string{"spec", "status"}, slices.DeleteFunc(pruned(run.known, Schema{}), func(s string) bool { return s == "apiVersion" || s == "kind" }))
	assert.Empty(t, pruned(run.known, Schema{"x-kubernetes-preserve-unknown-fields": true}))
}
