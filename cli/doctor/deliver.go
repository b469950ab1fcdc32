package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/cli/tell"
)

// lookEvery is how often the test run is looked at.
const lookEvery = 250 * time.Millisecond

// Test is a test goal: an ordinary run of the Agent, which stays.
type Test struct {
	Parameters map[string]string
	// Within is how long it may take.
	Within time.Duration
	// Say takes each new state while it is waited for.
	Say func(state string)
}

// Delivered is the test run and its timeline, by the API server's and the harness's clocks. It has no goal and no output.
type Delivered struct {
	Name    string `json:"name"`
	Reason  string `json:"reason,omitempty"`
	Outcome string `json:"outcome,omitempty"`
	Steps   []Step `json:"steps"`
}

// Step is one thing that happened to a run.
type Step struct {
	At   time.Time `json:"at"`
	What string    `json:"what"`
}

// Deliver makes the test run, waits for its end, and adds what came of it to the report. It is skipped when a link is broken: the run
// would tell nothing new.
func (c *Cluster) Deliver(ctx context.Context, seen Observed, r *Report, t Test) {
	f, run := c.deliver(ctx, seen, r, t)
	f.Check, r.Run = linkDeliver, run
	if f.About == "" {
		f.About = "agent/" + seen.Wanted
	}
	r.Findings = append(r.Findings, f)
}

func (c *Cluster) deliver(ctx context.Context, seen Observed, r *Report, t Test) (Finding, *Delivered) {
	for _, f := range r.Findings {
		if f.Status == StatusFail {
			return Finding{Status: StatusSkipped, Says: fmt.Sprintf("because %q is broken", f.Check)}, nil
		}
	}
	if len(seen.Agents.Value) != 1 || !seen.Agents.Value[0].Agent.There() {
		return notChecked("the Agent was not seen"), nil
	}
	agent := seen.Agents.Value[0].Agent.Value
	if agent.Spec.Mode == hearthv1.AgentModeScheduled {
		return notChecked("a Scheduled Agent's runs are made by its schedule alone"), nil
	}
	if service(agent) && agent.Spec.Runtime.Delivery == nil {
		return notChecked("a Service Agent without runtime.delivery takes no runs"), nil
	}
	if missing := lacking(agent, t.Parameters); len(missing) > 0 {
		f := fail(ParametersMissing, "Agent %s needs %s that were not given", agent.Name, count(len(missing), "parameter")).saw("%s", list(missing))
		line := "hearth doctor " + agent.Name + " -n " + seen.Namespace + " --deliver"
		for _, name := range required(agent) {
			line += " -p " + name + "=…"
		}
		return f.do("%s", line), nil
	}
	run := &hearthv1.AgentRun{
		ObjectMeta: metav1.ObjectMeta{GenerateName: agent.Name + "-doctor-", Namespace: seen.Namespace},
		Spec:       hearthv1.AgentRunSpec{AgentRef: hearthv1.AgentRef{Name: agent.Name}, Parameters: t.Parameters},
	}
	within, cancel := context.WithTimeout(ctx, 2*probeLimit)
	err := c.client.Create(within, run)
	cancel()
	if err != nil {
		if apierrors.IsForbidden(err) && strings.Contains(err.Error(), " cannot create ") {
			return notChecked(because(err)), nil
		}
		return fail(TestRefused, "the test run was refused").saw("%s", refusal(err, t.Parameters)).do("kubectl -n %s describe agent %s", seen.Namespace, agent.Name), nil
	}
	return c.follow(ctx, seen.Namespace, run, t)
}

// refusal is the API server's answer without the values that it may repeat.
func refusal(err error, parameters map[string]string) string {
	text := err.Error()
	for _, value := range parameters {
		if value != "" {
			text = strings.ReplaceAll(text, value, "…")
		}
	}
	return text
}

// follow waits for the run's end.
func (c *Cluster) follow(ctx context.Context, namespace string, run *hearthv1.AgentRun, t Test) (Finding, *Delivered) {
	limited, cancel := context.WithTimeout(ctx, t.Within)
	defer cancel()
	name, state := run.Name, ""
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for !run.Ended() {
		if now := where(*run); now != state && t.Say != nil {
			t.Say(run.Name + ": " + now)
			state = now
		}
		select {
		case <-limited.Done():
			f := fail(TestNotEnded, "the test run %s has not ended after %s", name, t.Within).saw("%s", where(*run)).do("kubectl -n %s describe agentrun %s", namespace, name)
			if ctx.Err() != nil {
				f = notChecked("you interrupted it; run " + name + " goes on")
			}
			return f.about("AgentRun", name), timeline(*run)
		case <-ticker.C:
		}
		found := object[hearthv1.AgentRun](limited, c, namespace, name)
		switch {
		case found.There():
			run = &found.Value
		case found.Absent:
			return notChecked("somebody deleted run "+name).about("AgentRun", name), timeline(*run)
		}
	}
	d := timeline(*run)
	c2 := condition(run.Status.Conditions, hearthv1.AgentRunConditionSucceeded)
	if c2.Status == metav1.ConditionTrue {
		return ok("the test run %s succeeded in %s", name, run.Status.CompletionTime.Sub(run.CreationTimestamp.Time).Round(time.Second)).about("AgentRun", name), d
	}
	return fail(TestFailed, "the test run %s ended %s/%s", name, run.Status.Phase, run.Status.Reason).about("AgentRun", name).
		saw("%s", refusal(errors.New(run.Status.Message), t.Parameters)).do("kubectl -n %s describe agentrun %s", namespace, name), d
}

func where(run hearthv1.AgentRun) string {
	c := condition(run.Status.Conditions, hearthv1.AgentRunConditionSucceeded)
	if c.Type == "" {
		return "made, not looked at yet"
	}
	return told(c.Reason, c.Message)
}

// timeline is what happened to a run, in order.
func timeline(run hearthv1.AgentRun) *Delivered {
	d := &Delivered{Name: run.Name, Reason: run.Status.Reason, Outcome: run.Status.Outcome}
	add := func(at *metav1.MicroTime, format string, args ...any) {
		if at != nil && !at.IsZero() {
			d.Steps = append(d.Steps, Step{At: at.Time, What: fmt.Sprintf(format, args...)})
		}
	}
	created := metav1.NewMicroTime(run.CreationTimestamp.Time)
	add(&created, "made")
	if s := run.Status.Delivery; s != nil {
		add(s.ReservedAt, "reserved for Pod %s, attempt %d", s.PodName, s.Attempt)
		add(s.AcceptedAt, "accepted by the harness")
	}
	add(run.Status.StartTime, "started")
	add(run.Status.CompletionTime, "ended: %s", strings.Trim(run.Status.Outcome+"/"+run.Status.Reason, "/"))
	add(run.Status.RecordedAt, "recorded")
	slices.SortStableFunc(d.Steps, func(a, b Step) int { return a.At.Compare(b.At) })
	return d
}

// required are the parameters that a run must give. Where an Agent declares none, those of its template are (api/v1alpha1, AgentSpec).
func required(agent hearthv1.Agent) (names []string) {
	for _, p := range agent.Spec.Parameters {
		if p.Default == nil {
			names = append(names, p.Name)
		}
	}
	if len(agent.Spec.Parameters) > 0 {
		return names
	}
	return tell.Placeholders(agent.Spec.GoalTemplate)
}

// lacking are those that were not given, with what they are for.
func lacking(agent hearthv1.Agent, given map[string]string) (missing []string) {
	for _, name := range required(agent) {
		if _, there := given[name]; there {
			continue
		}
		for _, p := range agent.Spec.Parameters {
			if p.Name == name && p.Description != "" {
				name += " (" + p.Description + ")"
				break
			}
		}
		missing = append(missing, name)
	}
	return missing
}
