package tell

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/cli/kube"
)

// long is after what time somebody who waits is told what a wait like this means.
const long = 10 * time.Second

// waits is what a run that waits for long waits for, and what to do about it (docs/operating.md, Why does my run wait?). Of the Agent's
// name there is one in each that wants it.
var waits = map[string]string{
	"":                                   "no controller has looked at it: is one running?",
	hearthv1.ReasonResolved:              "no controller has looked at it: is one running?",
	hearthv1.ReasonWaitingForService:     "the agent has no standing run, or wants none: its Ready condition says why",
	hearthv1.ReasonServiceRecasting:      "the standing run ended and is replaced after a while: the log of its Pod says why it ended",
	hearthv1.ReasonTargetNotReady:        "the agent's Pod does not listen yet",
	hearthv1.ReasonTargetBusy:            "all standing runs are busy: it has its turn, or raise the agent's runtime.delivery.concurrency or queue, or replicas",
	hearthv1.ReasonTargetUnreachable:     "nobody at the Pod's address could prove to be the Pod: nothing of the run was sent",
	hearthv1.ReasonTargetUnauthenticated: "the harness does not accept the controller's proof: delete the standing run, it is replaced",
	hearthv1.ReasonTargetIncompatible:    "the image's harness is too old or too new for the controller",
	hearthv1.ReasonReserved:              "a target was chosen, and the delivery is on its way",
	hearthv1.ReasonQueued:                "it waits inside the harness for its turn",
	hearthv1.ReasonPodNotRunning:         "its Pod does not run: kubelet's words are above",
	hearthv1.ReasonContactLost:           "its Pod has not answered for a while: the work goes on, and is recorded when contact is back",
	hearthv1.ReasonCancelling:            "it was asked to stop, and nobody has confirmed yet",
}

// doctor are the waits that somebody should look into; the others end by themselves.
var doctor = map[string]bool{
	"": true, hearthv1.ReasonResolved: true, hearthv1.ReasonWaitingForService: true, hearthv1.ReasonServiceRecasting: true,
	hearthv1.ReasonTargetNotReady: true, hearthv1.ReasonTargetUnreachable: true, hearthv1.ReasonTargetUnauthenticated: true,
	hearthv1.ReasonTargetIncompatible: true, hearthv1.ReasonPodNotRunning: true,
}

// Story is what is told of a run while somebody waits for it. Its zero value has seen nothing.
type Story struct {
	run     *hearthv1.AgentRun
	since   time.Time // of this state
	begun   time.Time // of the waiting
	advised bool      // what this state's wait means was told
}

// See is what is said of a change: a line when phase, reason or attempt are others than before.
func (s *Story) See(run *hearthv1.AgentRun, now time.Time) []string {
	before := s.run
	s.run = run
	if s.begun.IsZero() {
		s.begun, s.since = now, now
	}
	if before != nil && Word(before) == Word(run) && attempt(before) == attempt(run) {
		return nil
	}
	s.since, s.advised = now, false
	if run.Ended() {
		return nil // what is said of that is Ended
	}
	return []string{s.state()}
}

// state is the state in a line.
func (s *Story) state() string {
	line := kube.Line(s.run.Name) + ": " + kube.Line(Word(s.run))
	_, reason, message := State(s.run)
	if s.run.Status.PodName != "" && reason == hearthv1.ReasonRunning {
		line += " on " + s.run.Status.PodName
	}
	if n := attempt(s.run); n > 1 {
		line += fmt.Sprintf(", attempt %d", n)
	}
	if message := kube.Line(message); message != "" {
		line += ": " + message
	}
	return line
}

// Advice is what a wait that has become long means and what to do, once in each state; command makes a command line of ours.
func (s *Story) Advice(now time.Time, command func(...string) string) []string {
	if s.run == nil || s.advised || s.run.Ended() || now.Sub(s.since) < long {
		return nil
	}
	s.advised = true
	_, reason, _ := State(s.run)
	meaning, ok := waits[reason]
	if !ok {
		return nil
	}
	lines := []string{"  " + meaning}
	if agent := s.run.Spec.AgentRef.Name; doctor[reason] && agent != "" {
		lines = append(lines, "  next: "+command("doctor", agent))
	}
	return lines
}

// Now is the line under which a person watches the wait.
func (s *Story) Now(now time.Time) string {
	if s.run == nil {
		return ""
	}
	return duration.HumanDuration(now.Sub(s.begun)) + "  " + s.state()
}

// Phase is the phase that was last seen.
func (s *Story) Phase() hearthv1.Phase {
	if s.run == nil {
		return hearthv1.PhasePending
	}
	phase, _, _ := State(s.run)
	return phase
}

func attempt(run *hearthv1.AgentRun) int64 {
	if run.Status.Delivery == nil {
		return 0
	}
	return run.Status.Delivery.Attempt
}
