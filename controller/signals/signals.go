// Package signals tells what a status write that succeeded made true: in Events, log lines, metrics and spans. What there is to tell is
// decided from what was stored before and after, so nothing is told twice, not by a pass that is repeated and not by a controller that
// starts anew (SPEC.md, Signals).
package signals

import (
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/metrics"
	"github.com/hearthdev/hearth/controller/trace"
)

// Signals is where things are told. Without Events, Log or Spans there are no Events, lines or spans.
type Signals struct {
	Events events.EventRecorder
	Log    *slog.Logger
	Spans  *trace.Spans
}

// Write is a status write of a run.
type Write struct {
	// Before is what was stored, After what is.
	Before, After *hearthv1.AgentRun
	// Lost is why an attempt was lost by it, "" if none was.
	Lost string
	// Begun and Done are when the write began and when it was over.
	Begun, Done time.Time
}

// Run tells of a write of a run.
func (s Signals) Run(w Write) {
	metrics.RunWritten(w.Before, w.After, w.Lost, s.Spans.Exemplar(w.After))
	s.Spans.Written(w.Before, w.After, w.Begun, w.Done)
	told := OfRun(w.Before, w.After, w.Lost)
	if len(told) == 0 {
		return
	}
	log := s.Logger(w.After)
	for _, e := range told {
		s.tell(w.After, podOf(w), e)
		log.Info("run: "+e.Reason, "note", e.Note)
	}
}

// Agent tells of a write of an Agent's status: agent has what was stored before.
func (s Signals) Agent(agent *hearthv1.Agent, after *hearthv1.AgentStatus) {
	if n := after.Recasts - agent.Status.Recasts; n > 0 {
		metrics.Recast(agent.Namespace, agent.Name, int(n))
	}
	for _, e := range OfAgent(&agent.Status, after) {
		s.tell(agent, nil, e)
		s.log().Info("agent: "+e.Reason, "namespace", agent.Namespace, "agent", agent.Name, "note", e.Note)
	}
}

func (s Signals) tell(of, beside runtime.Object, e Event) {
	if s.Events != nil {
		s.Events.Eventf(of, beside, e.Type, e.Reason, e.Action, "%s", e.Note)
	}
}

// Logger makes the logger of everything that is said about a run.
func (s Signals) Logger(run *hearthv1.AgentRun) *slog.Logger {
	fields := []any{"namespace", run.Namespace, "run", run.Name, "runUID", run.UID, "attempt", attemptOf(run), "agent", run.Spec.AgentRef.Name}
	if id := s.Spans.ID(run); id != "" {
		fields = append(fields, "trace_id", id)
	}
	return s.log().With(fields...)
}

func (s Signals) log() *slog.Logger {
	if s.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Log
}

// podOf is the Pod that the Events are about, too: it tells those of one attempt from those of the next, which would otherwise be counted
// as one Event that came again.
func podOf(w Write) runtime.Object {
	for _, run := range []*hearthv1.AgentRun{w.After, w.Before} {
		if run.Status.PodName != "" && run.Status.PodUID != "" {
			return &corev1.Pod{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
				ObjectMeta: metav1.ObjectMeta{Namespace: run.Namespace, Name: run.Status.PodName, UID: types.UID(run.Status.PodUID)},
			}
		}
	}
	return nil
}
