package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

const hostile = "\x1b[2J\x1b]0;owned\x07\u202eback\r\nand more\x00"

// R55: a run is made of an Agent's name and parameters; its name is on stdout at once, and -o prints it as kubectl does.
func TestRunMakesASparseRun(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(w.bin, "concern")
	require.NoError(t, os.WriteFile(file, []byte("races"), 0o600))
	p := w.command("hearth", "run", "reviewer", "-p", "change=-", "-p", "concern=@"+file, "-n", w.namespace)
	p.Stdin = strings.NewReader("PR 17\n")
	require.NoError(t, p.Start())
	p.exits(0)
	run := w.run()
	assert.Equal(t, "agentrun.hearth.dev/"+run.Name+" created\n", p.out.String())
	assert.Empty(t, p.err.String())
	assert.True(t, strings.HasPrefix(run.Name, "reviewer-"))
	assert.Equal(t, "Review PR 17\n for races.", run.Spec.Goal)
	assert.False(t, run.Spec.Cancel)

	p = w.hearth("run", "agent/reviewer", "-p", "change=x", "--name", "mine", "-o", "name").exits(0)
	assert.Equal(t, "agentrun.hearth.dev/mine\n", p.out.String())
	p = w.hearth("run", "reviewer", "-p", "change=x", "--generate-name", "pr-", "-o", "jsonpath={.metadata.name} {.spec.goal}").exits(0)
	assert.Regexp(t, `^pr-[a-z0-9]{5} Review x for correctness\.$`, p.out.String())
}

// R55, R21: what is refused says so in a sentence with the field, and what to do next.
func TestARefusalSaysWhatToDoNext(t *testing.T) {
	w := newWorld(t)
	w.agent("taker", func(a *hearthv1.Agent) {
		a.Spec.GoalTemplate, a.Spec.Parameters, a.Spec.Runtime.Delivery = "", nil, nil
	})
	for _, c := range []struct {
		args []string
		says []string
	}{
		{[]string{"run", "reviewr"}, []string{"the run was refused, and not created\n  spec.agentRef.name: ", "\n  next: did you mean reviewer?\n"}},
		{[]string{"run", "x/y"}, []string{"  spec.agentRef.name: "}},
		{[]string{"run", "zzzzzzzzz"}, []string{"next: hearth agents -n " + w.namespace + " lists the agents"}},
		{[]string{"run", "reviewer"}, []string{"  spec.parameters: ", "change", "next: -p NAME=VALUE; kubectl describe agent reviewer -n " + w.namespace}},
		{[]string{"run", "reviewer", "-p", "change=s3cret", "-p", "nosuch=s3cret"}, []string{"  spec.parameters: ", "nosuch"}},
		{[]string{"run", "reviewer", "-p", "change=x", "--name", "reviewer-1"}, []string{"  metadata.name: ", "next: leave --name out, and a free one is made"}},
		{[]string{"run", "taker"}, []string{"the run was refused"}},
	} {
		p := w.hearth(c.args...).exits(3)
		for _, text := range c.says {
			assert.Contains(t, p.err.String(), text)
		}
		assert.NotContains(t, p.err.String(), "s3cret")
		assert.Empty(t, p.out.String())
	}
	w.made("mine")
	p := w.hearth("run", "reviewer", "-p", "change=x", "--name", "mine").exits(3)
	assert.Contains(t, p.err.String(), "already exists")
	p = w.command("hearth", "run", "reviewer", "-n", "no-such-namespace")
	require.NoError(t, p.Start())
	assert.Contains(t, p.exits(69).err.String(), "namespaces \"no-such-namespace\" not found\n  next: -n chooses another namespace")
	p = w.command("hearth", "run", "reviewer", "-n", server.Namespace(t))
	require.NoError(t, p.Start())
	assert.Contains(t, p.exits(3).err.String(), ": -n chooses another, and hearth agents -A lists all")
}

// R55: while it waits, changes are on stderr; at the end the output is on stdout, byte for byte, and nothing else.
func TestRunWaitsAndPrintsTheOutput(t *testing.T) {
	w := newWorld(t)
	p := w.hearth("run", "reviewer", "-p", "change=x", "--wait")
	p.says(" created\n")
	run := w.run()
	p.says(run.Name + ": Pending\n")
	w.plays(run, hearthv1.PhasePending, hearthv1.ReasonTargetBusy, "all are busy"+strings.TrimSuffix(hostile, "\x00"))
	p.says(run.Name + ": Pending/TargetBusy: all are busy�[2J�]0;owned��back and more\n")
	w.plays(run, hearthv1.PhaseRunning, hearthv1.ReasonRunning, "", func(s *hearthv1.AgentRunStatus) { s.PodName = "reviewer-1" })
	p.says(run.Name + ": Running on reviewer-1\n")
	output := "\x1b[1mbold\x1b[0m\r\nlast line, without an end"
	w.plays(run, hearthv1.PhaseSucceeded, hearthv1.ReasonCompleted, "done", ended(output))
	p.exits(0)
	assert.Equal(t, output, p.out.String(), "a pipe gets every byte")
	assert.Contains(t, p.err.String(), run.Name+": Succeeded/Completed on reviewer-1 in 0.0s\n")
	assert.NotContains(t, p.err.String(), "\x1b")

	again := w.hearth("wait", run.Name).exits(0)
	assert.Equal(t, output, again.out.String(), "a run that has ended is ended at once")
	assert.Equal(t, run.Name+" Succeeded", w.hearth("wait", "run/"+run.Name, "-o", "jsonpath={.metadata.name} {.status.phase}").exits(0).out.String())
}

// A disk that is full hides no run: who does not know of it makes another. That the output is not written is no failure of the run.
func TestWhatCannotBeWrittenIsSaid(t *testing.T) {
	w := newWorld(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer func() { _ = full.Close() }()
	w.plays(w.made("over"), hearthv1.PhaseSucceeded, hearthv1.ReasonCompleted, "", ended("words"))
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"run", "reviewer", "-p", "change=x", "--name", "one"}, "agentrun.hearth.dev/one created\n"},
		{[]string{"run", "reviewer", "-p", "change=x", "--name", "two", "-o", "name"}, "agentrun.hearth.dev/two created\n"},
		{[]string{"wait", "over"}, "over: Succeeded/Completed"},
		{[]string{"wait", "over", "-o", "json"}, "over: Succeeded/Completed"},
	} {
		p := w.command("hearth", append(c.args, "-n", w.namespace)...)
		p.Stdout = full
		require.NoError(t, p.Start())
		said := p.exits(74).err.String()
		assert.Contains(t, said, c.says)
		assert.Contains(t, said, "what came of it could not be written: ")
	}
}

// R55: how a run ended is the exit code, the first four as harness run has them (SPEC.md, Harness).
func TestTheExitCodeSaysHowTheRunEnded(t *testing.T) {
	w := newWorld(t)
	for reason, code := range map[string]int{
		hearthv1.ReasonCompleted: 0, "AgentError": 1, hearthv1.ReasonDeadlineExceeded: 2, "BudgetExceeded": 2, "Refused": 3,
		hearthv1.ReasonCancelled: 4, hearthv1.ReasonTargetLost: 5, hearthv1.ReasonOutcomeUnknown: 5,
	} {
		run := w.made("ends-" + strings.ToLower(reason))
		phase := hearthv1.PhaseFailed
		if code == 0 {
			phase = hearthv1.PhaseSucceeded
		}
		w.plays(run, phase, reason, "so it was", ended(""))
		p := w.hearth("wait", run.Name).exits(code)
		assert.Contains(t, p.err.String(), run.Name+": "+string(phase)+"/"+reason)
		assert.Empty(t, p.out.String())
	}
	assert.Contains(t, w.hearth("wait", "ends-agenteror").exits(5).err.String(), `did you mean ends-agenterror?`)
}

// A run that is deleted while somebody waits is not waited for.
func TestARunThatIsDeletedIsNotWaitedFor(t *testing.T) {
	w := newWorld(t)
	run := w.made("short-lived")
	p := w.hearth("wait", run.Name)
	p.says(": Pending\n")
	require.NoError(t, w.admin.Delete(t.Context(), run))
	assert.Contains(t, p.exits(5).err.String(), "run short-lived was deleted while it was waited for")
}

// Ctrl-C ends the waiting and not the run; so does --timeout. Both say how to come back.
func TestTheWaitingEndsAndTheRunGoesOn(t *testing.T) {
	w := newWorld(t)
	run := w.made("long")
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"wait", "long"}, 130, "long: the waiting has ended; the run goes on"},
		{[]string{"wait", "long", "--timeout", "10ms"}, 6, "long: not ended within 10ms; the run goes on"},
	} {
		p := w.hearth(c.args...)
		if c.code == 130 {
			p.says(": Pending\n")
			require.NoError(t, p.Process.Signal(os.Interrupt))
		}
		p.exits(c.code)
		assert.Contains(t, p.err.String(), c.says)
		assert.Contains(t, p.err.String(), "come back: hearth wait long -n "+w.namespace)
		assert.Contains(t, p.err.String(), "stop it:   hearth cancel long -n "+w.namespace)
	}
	run = w.named(run.Name)
	assert.False(t, run.Spec.Cancel)
	assert.False(t, run.Ended())
}

func TestCancelStopsRuns(t *testing.T) {
	w := newWorld(t)
	one, two, over := w.made("one"), w.made("two"), w.made("over")
	w.plays(over, hearthv1.PhaseSucceeded, hearthv1.ReasonCompleted, "", ended(""))
	p := w.hearth("cancel", "one", "over", "nosuch").exits(1)
	assert.Contains(t, p.err.String(), "agentrun.hearth.dev/one is to be cancelled\nover has ended already: Succeeded/Completed\n")
	assert.Contains(t, p.err.String(), `there is no run "nosuch" in namespace `+w.namespace)
	assert.True(t, w.named("one").Spec.Cancel)
	assert.False(t, w.named("over").Spec.Cancel)
	assert.False(t, w.named("two").Spec.Cancel)

	p = w.hearth("cancel", "one", "agentrun.hearth.dev/two", "--wait")
	p.says("two is to be cancelled")
	w.plays(one, hearthv1.PhaseFailed, hearthv1.ReasonCancelled, "as asked", ended(""))
	p.says("one: Failed/Cancelled")
	w.plays(two, hearthv1.PhaseFailed, hearthv1.ReasonCancelUnconfirmed, "nobody confirmed", ended(""))
	p.exits(0)
	assert.Contains(t, p.err.String(), "two: Failed/CancelUnconfirmed")
}

// With --wait nothing is deleted before its work has stopped.
func TestDeleteWaitsUntilTheWorkHasStopped(t *testing.T) {
	w := newWorld(t)
	gone := func(name string) bool {
		var run hearthv1.AgentRun
		return client.IgnoreNotFound(w.admin.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, &run)) == nil && run.Name == ""
	}
	run := w.made("stops")
	p := w.hearth("delete", "stops", "--wait")
	p.says("stops: Pending")
	assert.True(t, w.named("stops").Spec.Cancel)
	w.plays(run, hearthv1.PhaseFailed, hearthv1.ReasonCancelled, "as asked", ended(""))
	p.exits(0)
	assert.Contains(t, p.err.String(), "agentrun.hearth.dev/stops deleted\n")
	assert.True(t, gone("stops"))

	w.made("hangs")
	p = w.hearth("delete", "hangs", "--wait", "--timeout", "10ms").exits(6)
	assert.Contains(t, p.err.String(), "what has not stopped is not deleted")
	assert.False(t, gone("hangs"))
	p = w.hearth("delete", "hangs").exits(0)
	assert.Contains(t, p.err.String(), "agentrun.hearth.dev/hangs deleted; its work is cancelled right after\n")
	assert.True(t, gone("hangs"))
}
