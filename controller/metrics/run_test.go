package metrics

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func after(seconds int) *metav1.MicroTime {
	return ptr.To(metav1.NewMicroTime(epoch.Add(time.Duration(seconds) * time.Second)))
}

// run is a delivered run created at epoch, with a status.
func run(status hearthv1.AgentRunStatus) *hearthv1.AgentRun {
	return &hearthv1.AgentRun{
		ObjectMeta: metav1.ObjectMeta{Name: "work", Namespace: "team", CreationTimestamp: metav1.NewTime(epoch)},
		Spec:       hearthv1.AgentRunSpec{Delivery: &hearthv1.DeliverySpec{}}, Status: status,
	}
}

func pod(r *hearthv1.AgentRun) *hearthv1.AgentRun {
	r.Spec.Delivery = nil
	return r
}

func standing(r *hearthv1.AgentRun) *hearthv1.AgentRun {
	r.Annotations = map[string]string{hearthv1.AnnotationGeneration: "1"}
	return pod(r)
}

func delivery(d hearthv1.DeliveryStatus) hearthv1.AgentRunStatus {
	return hearthv1.AgentRunStatus{Delivery: &d}
}

// What each write of a run moves, exactly (SPEC.md, Signals).
func TestAWriteMovesWhatItMadeTrueAndNothingElse(t *testing.T) {
	reserved := hearthv1.DeliveryStatus{Attempt: 1, ReservedAt: after(2)}
	accepted := hearthv1.DeliveryStatus{Attempt: 1, ReservedAt: after(2), AcceptedAt: after(3)}
	ended := func(outcome, reason string, started *metav1.MicroTime) hearthv1.AgentRunStatus {
		return hearthv1.AgentRunStatus{Outcome: outcome, Reason: reason, Phase: hearthv1.PhaseFailed, StartTime: started, CompletionTime: after(9), RecordedAt: after(10), Delivery: &accepted}
	}
	for name, c := range map[string]struct {
		before, after *hearthv1.AgentRun
		lost          string
		want          []move
	}{
		"waits":     {run(hearthv1.AgentRunStatus{}), run(hearthv1.AgentRunStatus{Phase: hearthv1.PhasePending}), "", nil},
		"reserved":  {run(hearthv1.AgentRunStatus{}), run(delivery(reserved)), "", nil},
		"accepted":  {run(delivery(reserved)), run(delivery(accepted)), "", []move{{name: Delivery, seconds: 1}}},
		"unchanged": {run(delivery(accepted)), run(delivery(accepted)), "", nil},
		"started": {run(delivery(accepted)), run(hearthv1.AgentRunStatus{Delivery: &accepted, StartTime: after(5)}), "",
			[]move{{name: RunWaiting, seconds: 5}}},
		"started again, after a loss": {run(delivery(hearthv1.DeliveryStatus{Attempt: 2, ReservedAt: after(6), AcceptedAt: after(7), Losses: 1})),
			run(hearthv1.AgentRunStatus{Delivery: &hearthv1.DeliveryStatus{Attempt: 2, ReservedAt: after(6), AcceptedAt: after(7), Losses: 1}, StartTime: after(8)}), "", nil},
		"the next attempt is accepted": {run(delivery(hearthv1.DeliveryStatus{Attempt: 1, Losses: 1})),
			run(delivery(hearthv1.DeliveryStatus{Attempt: 2, Losses: 1, ReservedAt: after(6), AcceptedAt: after(6)})), "", []move{{name: Delivery}}},
		"an attempt is lost": {run(delivery(accepted)), run(delivery(hearthv1.DeliveryStatus{Attempt: 1, Losses: 1})), "TargetLost",
			[]move{{name: DeliveryLosses, labels: []string{"TargetLost"}}}},
		"given back, which is no loss": {run(delivery(reserved)), run(delivery(hearthv1.DeliveryStatus{Attempt: 1})), "", nil},
		"a short run ends at once": {run(delivery(reserved)), run(ended("Succeeded", "Completed", after(4))), "", []move{
			{name: RunWaiting, seconds: 4}, {name: Delivery, seconds: 1}, {RunsFinished, []string{KindDelivered, "Succeeded", "Completed"}, 0},
			{RunDuration, []string{"Succeeded"}, 5}, {name: Record, seconds: 1}}},
		"it was recorded before": {run(ended("Succeeded", "Completed", after(4))), run(ended("Succeeded", "Completed", after(4))), "", nil},
		"the controller's own end": {run(delivery(accepted)), run(ended("", "CancelUnconfirmed", nil)), "", []move{
			{RunsFinished, []string{KindDelivered, "Failed", "CancelUnconfirmed"}, 0}, {name: CancelsUnconfirmed}}},
		"cancelled before it was sent": {run(delivery(accepted)), run(ended("", "Cancelled", nil)), "", []move{{RunsFinished, []string{KindDelivered, "Cancelled", "Cancelled"}, 0}}},
		"a word of the runtime's own": {run(delivery(accepted)), run(ended("Odd", "Strange", nil)), "", []move{
			{RunsFinished, []string{KindDelivered, "Other", "Other"}, 0}, {name: Record, seconds: 1}}},
		"a one-shot run": {pod(run(hearthv1.AgentRunStatus{})), pod(run(ended("", "PodFailed", after(4)))), "", []move{
			{RunsFinished, []string{KindPod, "Failed", "PodFailed"}, 0}, {RunDuration, []string{"Failed"}, 5}}},
		"a standing run": {standing(run(hearthv1.AgentRunStatus{})), standing(run(ended("", "PodFailed", after(4)))), "", []move{
			{RunsFinished, []string{KindStanding, "Failed", "PodFailed"}, 0}}},
		"a harness whose clock is behind": {run(delivery(hearthv1.DeliveryStatus{Attempt: 1, ReservedAt: after(5)})),
			run(delivery(hearthv1.DeliveryStatus{Attempt: 1, ReservedAt: after(5), AcceptedAt: after(1)})), "", []move{{name: Delivery, seconds: 0}}},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, moves(c.before, c.after, c.lost)) })
	}
}

func TestEachThingThatHappensMovesItsMetric(t *testing.T) {
	for name, happens := range map[string]func(){
		LinkPanics: LinkPanicked, ReserveConflicts: ReserveConflict, DeliveryUnknowns: DeliveryUnknown, LateResults: LateResult,
		CancelsUnconfirmed: func() {
			RunWritten(run(hearthv1.AgentRunStatus{}), run(hearthv1.AgentRunStatus{Reason: "CancelUnconfirmed", CompletionTime: after(1)}), "", "")
		},
		Recasts:           func() { Recast("team", "reviewer", 1) },
		AdmissionRefusals: func() { Refused("MissingAgent", "MissingAgent") },
		DeliveryLosses: func() {
			RunWritten(run(hearthv1.AgentRunStatus{}), run(delivery(hearthv1.DeliveryStatus{Losses: 1})), "TargetLost", "")
		},
	} {
		before := total(t, name)
		happens()
		assert.InDelta(t, before+1, total(t, name), 0, name)
	}
	AgentGone("team", "reviewer")
	assert.Zero(t, count(recasts), "what is told of an Agent goes with it")
	Refused("a word of nobody's")
	found := false
	for _, m := range family(t, AdmissionRefusals).GetMetric() {
		found = found || m.GetLabel()[0].GetValue() == other
	}
	assert.True(t, found, "a word that is not on the list makes no series of its own")
}

// total is the sum of a metric's series in the registry that is served.
func total(t *testing.T, name string) float64 {
	t.Helper()
	sum := 0.0
	for _, m := range family(t, name).GetMetric() {
		sum += m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
	}
	return sum
}

func family(t *testing.T, name string) *dto.MetricFamily {
	t.Helper()
	families, err := metrics.Registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f
		}
	}
	return &dto.MetricFamily{}
}

// Issue: histograms carry the trace.
func TestHistogramsCarryTheTrace(t *testing.T) {
	id := "4bf92f3577b34da6a3ce929d0e0e4736"
	RunWritten(run(delivery(hearthv1.DeliveryStatus{Attempt: 1, ReservedAt: after(2)})),
		run(delivery(hearthv1.DeliveryStatus{Attempt: 1, ReservedAt: after(2), AcceptedAt: after(3)})), "", id)
	var found []string
	for _, b := range family(t, Delivery).GetMetric()[0].GetHistogram().GetBucket() {
		for _, l := range b.GetExemplar().GetLabel() {
			found = append(found, l.GetName()+"="+l.GetValue())
		}
	}
	assert.Equal(t, []string{"trace_id=" + id}, found)
}

func TestGaugesAreTheLeadersAndFollowWhatItKnows(t *testing.T) {
	assert.Zero(t, count(leading), "who does not lead says nothing")
	state := State{Links: map[string]int{"verified": 2}, Agents: []Agent{{Namespace: "team", Name: "reviewer", Waiting: 3, Targets: map[string]int{TargetReady: 1}}}}
	stop := Lead(func() (State, bool) { return state, true })
	assert.InDelta(t, 2, gauge(t, Links, "verified"), 0)
	assert.InDelta(t, 3, gauge(t, QueueDepth, "reviewer"), 0)
	assert.InDelta(t, 1, gauge(t, Targets, TargetReady), 0)
	assert.Len(t, family(t, Targets).GetMetric(), len(TargetStates()), "every state is there")
	other := Lead(func() (State, bool) { return State{}, false })
	assert.Zero(t, count(leading), "who cannot tell says nothing")
	stop()
	assert.NotNil(t, leading.source, "the end of an earlier one changes nothing")
	other()
	assert.Nil(t, leading.source)
}

func gauge(t *testing.T, name, label string) float64 {
	t.Helper()
	for _, m := range family(t, name).GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetValue() == label {
				return m.GetGauge().GetValue()
			}
		}
	}
	return -1
}

// The table is what is registered: names, kinds, labels; and no label can hold a run, a Pod or a session.
func TestTheTableIsWhatIsServed(t *testing.T) {
	stop := Lead(func() (State, bool) {
		return State{Links: map[string]int{"verified": 1}, Agents: []Agent{{Namespace: "n", Name: "a", Targets: map[string]int{}}}}, true
	})
	defer stop()
	for name, vec := range counterOf {
		vec.WithLabelValues(make([]string, len(of(name).Labels))...)
	}
	runDuration.WithLabelValues("Succeeded")
	Recast("n", "a", 1)
	t.Cleanup(func() { AgentGone("n", "a") }) // the registry is one for all tests of the process
	Refused("Invalid")
	ShardOverlaps(1)
	AgentsUnserved(2)
	assert.InDelta(t, 1, family(t, Overlaps).GetMetric()[0].GetGauge().GetValue(), 0)
	assert.InDelta(t, 2, family(t, Unserved).GetMetric()[0].GetGauge().GetValue(), 0)
	t.Cleanup(func() { overlaps.Reset(); unserved.Reset() })
	allowed := []string{"component", "version", "revision", "goversion", "kind", "outcome", "reason", "state", "namespace", "agent", "code"}
	kinds := map[Kind]dto.MetricType{Counter: dto.MetricType_COUNTER, Gauge: dto.MetricType_GAUGE, Histogram: dto.MetricType_HISTOGRAM}
	for _, m := range Table() {
		f := family(t, m.Name)
		require.NotEmpty(t, f.GetMetric(), m.Name)
		assert.Equal(t, kinds[m.Kind], f.GetType(), m.Name)
		assert.Equal(t, m.Help, f.GetHelp())
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		assert.ElementsMatch(t, m.Labels, labels, m.Name)
		assert.Subset(t, allowed, m.Labels)
	}
}

// count is how many series a collector has.
func count(c prometheus.Collector) int {
	series := make(chan prometheus.Metric, 64)
	c.Collect(series)
	return len(series)
}
