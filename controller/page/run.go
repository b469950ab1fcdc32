package page

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// runPage is one run.
type runPage struct {
	runRow
	Ended      bool
	Standing   bool
	Delivered  bool
	Steps      []step
	Facts      []fact
	Conditions []conditionRow
}

// step is a moment of a run's life.
type step struct {
	Name, Text string
	At         stamp
	// After is how long it took since the step before, "" for the first and where clocks disagree.
	After string
	State badge
}

// Reached tells whether it has come that far.
func (s step) Reached() bool { return s.At.Set() }

func (v view) run(r *hearthv1.AgentRun) runPage {
	p := runPage{
		runRow: v.row(r), Ended: r.Ended(), Standing: r.Standing(), Delivered: r.Delivered(),
		Steps: v.steps(r), Facts: v.runFacts(r), Conditions: v.conditions(r.Status.Conditions, !r.Ended()),
	}
	p.Message = message(r, maxText)
	return p
}

// steps is how the run went so far, and what is still to come of one that lives.
func (v view) steps(r *hearthv1.AgentRun) []step {
	st := r.Status
	all := []step{{Name: "Created", At: v.at(r.CreationTimestamp.Time), Text: scheduledFor(r)}}
	if r.Spec.AgentRef.Generation > 0 {
		all = append(all, step{Name: "Admitted", At: v.at(r.CreationTimestamp.Time),
			Text: fmt.Sprintf("resolved from generation %d of Agent %s", r.Spec.AgentRef.Generation, clean(r.Spec.AgentRef.Name, maxCell))})
	}
	if r.Delivered() {
		all = append(all, v.delivered(r)...)
	}
	all = append(all, step{Name: "Started", At: v.at(micro(st.StartTime)), Text: clock(r.Delivered(), st.StartTime)})
	if !r.Ended() {
		return v.spaced(append(all, step{Name: "Finished"}))
	}
	all = append(all, step{Name: "Finished", At: v.at(micro(st.CompletionTime)), Text: reason(r), State: phaseBadge(r)},
		step{Name: "Recorded", At: v.at(micro(st.RecordedAt))})
	reached := all[:0]
	for _, s := range all {
		if s.Reached() || s.State.Tone == toneBad { // losses have no moment of their own
			reached = append(reached, s)
		}
	}
	return v.spaced(reached)
}

// delivered are the steps between admission and start of a delivered run.
func (v view) delivered(r *hearthv1.AgentRun) []step {
	d := r.Status.Delivery
	if d == nil {
		d = &hearthv1.DeliveryStatus{}
	}
	var steps []step
	if d.Losses > 0 {
		text := fmt.Sprintf("%d attempts were lost with their targets", d.Losses)
		if d.Losses == 1 {
			text = "1 attempt was lost with its target"
		}
		if d.SpentSeconds > 0 {
			text += ", which had worked for " + span(time.Duration(d.SpentSeconds)*time.Second)
		}
		steps = append(steps, step{Name: "Lost", Text: text, State: badge{Tone: toneBad}})
	}
	reserved := step{Name: "Reserved", At: v.at(micro(d.ReservedAt))}
	if d.ReservedAt != nil {
		reserved.Text = fmt.Sprintf("attempt %d, for Pod %s", d.Attempt, clean(d.PodName, maxCell))
	} else if d.NextTime != nil {
		reserved.Text = "again " + v.at(d.NextTime.Time).Ago() + " at the earliest"
	}
	accepted := step{Name: "Accepted", At: v.at(micro(d.AcceptedAt)), Text: clock(true, d.AcceptedAt)}
	return append(steps, reserved, accepted)
}

// clock says whose clock a moment was read from, where it is not the controller's or the node's.
func clock(delivered bool, at *metav1.MicroTime) string {
	if !delivered || at == nil {
		return ""
	}
	return "by the Pod's clock"
}

// spaced fills in how long each step took. Clocks of two machines may disagree: no time is negative.
func (v view) spaced(steps []step) []step {
	var before time.Time
	for i := range steps {
		s := &steps[i]
		if !s.Reached() {
			continue
		}
		if d := s.At.at.Sub(before); !before.IsZero() && d > 0 {
			s.After = "+" + span(d)
		}
		before = s.At.at
	}
	return steps
}

func scheduledFor(r *hearthv1.AgentRun) string {
	if at := r.Annotations[hearthv1.AnnotationScheduledAt]; at != "" {
		return "by the schedule, for " + clean(at, maxCell)
	}
	return ""
}

func kind(r *hearthv1.AgentRun) string {
	switch {
	case r.Delivered():
		return "delivered to a standing run"
	case r.Standing():
		return "standing: it keeps an agent's Pod alive"
	case r.AdHoc():
		return "ad hoc, with a Pod of its own"
	default:
		return "with a Pod of its own"
	}
}

func (v view) runFacts(r *hearthv1.AgentRun) []fact {
	st := r.Status
	facts := []fact{{Name: "Kind", Value: kind(r)}, {Name: "Pod", Value: clean(target(r), maxCell)}, {Name: "Worked", Value: v.took(r)}}
	if d := st.Delivery; d != nil && d.Attempt > 0 {
		facts = append(facts, fact{Name: "Attempt", Value: fmt.Sprint(d.Attempt)})
	}
	if st.Restarts > 0 {
		facts = append(facts, fact{Name: "Container restarts", Value: fmt.Sprint(st.Restarts)})
	}
	if st.CordonedAt != nil {
		facts = append(facts, fact{Name: "Takes no further work since", At: v.at(st.CordonedAt.Time)})
	}
	if r.Spec.Cancel {
		facts = append(facts, fact{Name: "Cancel", Value: "asked for"})
	}
	if !r.Ended() {
		return said(append(facts, v.deadlines(r)...))
	}
	facts = append(facts, fact{Name: "Outcome", Value: clean(st.Outcome, maxCell)})
	facts = append(facts, usage(st.Usage)...)
	if st.Truncation != nil {
		facts = append(facts, fact{Name: "Output", Value: fmt.Sprintf("cut: it had %d bytes", st.Truncation.OriginalBytes)})
	}
	if ttl := r.Spec.TTLSecondsAfterFinished; ttl != nil {
		facts = append(facts, fact{Name: "Record kept until", At: v.at(st.CompletionTime.Add(time.Duration(*ttl) * time.Second))})
	}
	return said(facts)
}

// deadlines are those that a living run has still ahead.
func (v view) deadlines(r *hearthv1.AgentRun) []fact {
	start := micro(r.Status.StartTime)
	if active := r.Spec.ActiveDeadlineSeconds; active != nil && !start.IsZero() {
		return []fact{{Name: "Has to finish", At: v.at(start.Add(time.Duration(*active) * time.Second))}}
	}
	starting := r.Spec.StartingDeadlineSeconds
	if starting == nil || !start.IsZero() {
		return nil
	}
	by := r.CreationTimestamp.Add(time.Duration(*starting) * time.Second)
	if d := r.Status.Delivery; d != nil {
		by = by.Add(time.Duration(d.SpentSeconds) * time.Second)
	}
	return []fact{{Name: "Has to start", At: v.at(by)}}
}

func usage(u *hearthv1.Usage) []fact {
	if u == nil {
		return nil
	}
	var facts []fact
	for _, n := range []struct {
		name  string
		count *int64
	}{{"Tokens read", u.InputTokens}, {"Tokens written", u.OutputTokens}, {"Tokens in all", u.TotalTokens}} {
		if n.count != nil {
			facts = append(facts, fact{Name: n.name, Value: fmt.Sprint(*n.count)})
		}
	}
	if u.Cost != nil {
		facts = append(facts, fact{Name: "Cost", Value: clean(u.Cost.Amount+" "+u.Cost.Currency, maxCell)})
	}
	return facts
}
