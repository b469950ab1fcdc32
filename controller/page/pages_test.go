package page

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// pages are all the pages of the played world, by the name of their golden file.
var pages = map[string]string{
	"overview": "/", "queue": "/queue", "runs": "/runs", "runs-failed": "/runs?namespace=payments&agent=reviewer&phase=Failed",
	"runs-none": "/runs?namespace=nowhere", "agent-service": "/agents/payments/reviewer", "agent-recasting": "/agents/payments/triage",
	"agent-scheduled": "/agents/platform/nightly-report", "agent-task": "/agents/platform/upgrade-dependencies",
	"run-waiting": "/runs/payments/review-482", "run-working": "/runs/payments/review-480", "run-lost": "/runs/payments/triage-incident-77",
	"run-ended": "/runs/payments/review-476", "run-scheduled": "/runs/platform/nightly-report-29411280", "run-standing": "/runs/payments/reviewer-1",
	"no-run": "/runs/payments/nothing", "no-agent": "/agents/payments/nothing", "no-page": "/nothing", "bad-filter": "/runs?phase=Sleeping",
}

func TestEachPageIsAsItWasReviewed(t *testing.T) {
	g := playedStage(t)
	for name, path := range pages {
		golden(t, name+".html", g.get(path).Body.Bytes())
	}
	golden(t, "empty.html", newStage(t, nil, nil).get("/").Body.Bytes())
	golden(t, "empty-queue.html", newStage(t, nil, nil).get("/queue").Body.Bytes())
	golden(t, "empty-runs.html", newStage(t, nil, nil).get("/runs").Body.Bytes())
}

// A page has no login: it shows no goal, parameter, output, message of a runtime, session, digest or address, on whichever page.
func TestNoPageShowsWhatWorkIsAbout(t *testing.T) {
	g := playedStage(t)
	for name, path := range pages {
		w := g.get(path)
		assert.NotContains(t, w.Body.String(), secretText, name)
	}
}

func TestAnswersHaveTheirCodes(t *testing.T) {
	g := playedStage(t)
	for path, code := range map[string]int{
		"/": 200, "/queue": 200, "/runs": 200, "/runs/payments/review-480": 200, "/agents/payments/reviewer": 200,
		"/runs/payments/nothing": 404, "/runs/nowhere/review-480": 404, "/agents/payments/nothing": 404, "/nothing": 404, "/agents": 404,
		"/static/page.css": 200, "/static/page.js": 200, "/static/icon.svg": 200, "/static/..%2Ftemplates%2Frun.html": 404, "/static/": 404,
	} {
		assert.Equal(t, code, g.get(path).Code, path)
	}
	for query, says := range map[string]string{
		"phase=Sleeping":                        "phase: expected Pending, Running, Succeeded, Failed, or none for all",
		"namespace=" + strings.Repeat("a", 254): "namespace: expected at most 253 characters",
		"agent=" + strings.Repeat("a", 254):     "agent: expected at most 253 characters",
		"agent=a&agent=b":                       "agent: expected it once",
		"colour=red":                            "colour: expected namespace, agent or phase",
	} {
		w := g.get("/runs?" + query)
		assert.Equal(t, http.StatusBadRequest, w.Code, query)
		assert.Contains(t, w.Body.String(), says)
	}
}

// What a cluster's texts hold cannot become markup, script or an attribute, nor turn around what is written beside it.
func TestHostileTextsStayTexts(t *testing.T) {
	const markup = `<script>alert(1)</script>"' onload=x <img src=x onerror=y> javascript:z {{.}}`
	const turned = "gnp.exe\u202egpj \u2066x\u2069 \x00\x1b[31m \u200f"
	long := strings.Repeat("very long ", 500)
	a := agentOf("payments", markup, func(a *hearthv1.Agent) {
		a.Status.Conditions = []metav1.Condition{conditionOf(hearthv1.AgentConditionReady, "False", markup, turned+markup+long, time.Hour)}
	})
	r := runOf("payments", markup, "javascript:alert(1)", time.Minute, func(r *hearthv1.AgentRun) {
		r.Status.Phase, r.Status.PodName = markup, markup
		r.Status.Conditions[0].Reason, r.Status.Conditions[0].Message = markup, turned+markup+long
		r.Annotations = map[string]string{hearthv1.AnnotationScheduledAt: markup}
	})
	waits := runOf("payments", markup, "waits", time.Minute, func(r *hearthv1.AgentRun) {
		r.Status.Conditions[0].Reason, r.Status.Conditions[0].Message = markup, turned+"\xff"+long
	})
	g := newStage(t, []*hearthv1.Agent{a}, []*hearthv1.AgentRun{r, waits, standingOf(a, 1, func(*hearthv1.AgentRun) {})})
	markups := regexp.MustCompile(`<script>|<img src=x|" onload|href="javascript`)
	for _, path := range []string{"/", "/queue", "/runs", "/runs/payments/javascript:alert%281%29", "/runs/payments/waits",
		"/agents/payments/%3Cscript%3Ealert%281%29%3C%2Fscript%3E%22%27%20onload=x%20%3Cimg%20src=x%20onerror=y%3E%20javascript:z%20%7B%7B.%7D%7D"} {
		w := g.get(path)
		require.Equal(t, http.StatusOK, w.Code, path)
		body := w.Body.String()
		assert.NotRegexp(t, markups, body, path)
		assert.NotContains(t, body, "\u202e", path)
		assert.NotContains(t, body, "\u2066", path)
		assert.NotContains(t, body, "\x1b", path)
		assert.Less(t, len(body), 40_000, "%s: long texts are cut", path)
	}
	w := g.get("/agents/" + markup[:8] + "/\u202ex")
	assert.Equal(t, http.StatusNotFound, w.Code)
	assert.NotContains(t, w.Body.String(), "\u202e")
}

func TestMomentsReadAsPeopleSayThem(t *testing.T) {
	for d, says := range map[time.Duration]string{
		0: "now", 300 * time.Millisecond: "now", 5 * time.Second: "5 s ago", 59 * time.Second: "59 s ago", time.Minute: "1 min ago", 95 * time.Second: "1 min 35 s ago",
		2 * time.Hour: "2 h ago", 26*time.Hour + 5*time.Minute: "1 d 2 h ago", -90 * time.Minute: "in 1 h 30 min",
	} {
		assert.Equal(t, says, stamp{at: noon.Add(-d), now: noon}.Ago())
	}
	for d, says := range map[time.Duration]string{
		0: "0 ms", 20 * time.Millisecond: "20 ms", 1500 * time.Millisecond: "1.5 s", 2 * time.Second: "2 s", 12*time.Second + 900*time.Millisecond: "12 s",
	} {
		assert.Equal(t, says, span(d))
	}
	assert.Equal(t, "0 ms", stamp{at: noon.Add(time.Hour), now: noon}.Age(), "a clock that is ahead")
}

// What a target holds fills its slots first, then its queue, and nothing that has ended or waits elsewhere counts.
func TestTargetsShowWhatTheyHold(t *testing.T) {
	agents, runs := played()
	s := surveyed(runs, 10)
	first, second := s.target(runs[0], view{now: noon}), s.target(runs[1], view{now: noon})
	assert.Equal(t, meter{Used: 1, Of: 2}, first.Slots)
	assert.Equal(t, meter{Used: 0, Of: 2}, first.Queue)
	assert.Equal(t, meter{Used: 2, Of: 2}, second.Slots)
	assert.Equal(t, meter{Used: 1, Of: 2}, second.Queue)

	bare := standingOf(agents[0], 3, func(r *hearthv1.AgentRun) { r.Spec.Runtime, r.Status.CordonedAt = nil, microAgo(0) })
	assert.False(t, s.target(bare, view{}).Takes, "nothing is delivered to an Agent without delivery")
	assert.Equal(t, "draining", s.target(bare, view{}).State.Word)
	unmade := standingOf(agents[0], 4, func(r *hearthv1.AgentRun) { r.Status = hearthv1.AgentRunStatus{} })
	s.held[""] = 7
	assert.Equal(t, meter{Used: 0, Of: 2}, s.target(unmade, view{}).Slots, "what has no Pod holds nothing")
	assert.Equal(t, "not listening", s.target(unmade, view{}).State.Word)
}

// The lists are bounded, whatever the cluster holds, and say what they leave out.
func TestListsAreBounded(t *testing.T) {
	var agents []*hearthv1.Agent
	var runs []*hearthv1.AgentRun
	for i := range maxAgents + 7 {
		agents = append(agents, agentOf("payments", fmt.Sprintf("agent-%04d", i), func(*hearthv1.Agent) {}))
	}
	for i := range 1000 {
		runs = append(runs, runOf("payments", "agent-0000", fmt.Sprintf("run-%04d", i), time.Duration(i)*time.Second, func(*hearthv1.AgentRun) {}))
	}
	for i := range maxTargets + 5 {
		runs = append(runs, standingOf(agents[0], i, func(*hearthv1.AgentRun) {}))
	}
	g := newStage(t, agents, runs)
	rows := func(path string) int {
		return strings.Count(g.get(path).Body.String(), `<tr role="row"><th role="rowheader"`)
	}
	assert.Equal(t, maxAgents+2*maxFew, rows("/"))
	assert.Equal(t, maxQueue, rows("/queue"))
	assert.Equal(t, maxRuns, rows("/runs"))
	assert.Equal(t, maxTargets+2*maxFew, rows("/agents/payments/agent-0000"))
	assert.Contains(t, g.get("/").Body.String(), "7 more are not shown")
	assert.Contains(t, g.get("/").Body.String(), "and 102 more</a>")
	assert.Contains(t, g.get("/queue").Body.String(), "The oldest 200 of 1000 are shown.")
	assert.Contains(t, g.get("/runs").Body.String(), "The newest 200 of 1000 are shown.")
	assert.Contains(t, g.get("/runs").Body.String(), "run-0199<")
	assert.NotContains(t, g.get("/runs").Body.String(), "run-0200<", "the newest come first")
	assert.Contains(t, g.get("/queue").Body.String(), "run-0999<", "the oldest come first")
	assert.Contains(t, g.get("/agents/payments/agent-0000").Body.String(), "5 more are not shown")
}

// Clocks of a Pod and of the controller may disagree.
func TestNoStepTookLessThanNothing(t *testing.T) {
	r := runOf("payments", "reviewer", "work", time.Minute, ended("reviewer-1", hearthv1.ReasonCompleted, 10*time.Second, 20*time.Second))
	r.Status.Delivery.AcceptedAt = ptr.To(metav1.NewMicroTime(noon.Add(-time.Hour)))
	for _, s := range (view{now: noon}).steps(r) {
		assert.NotContains(t, s.After, "-")
	}
}
