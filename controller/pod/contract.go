package pod

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

// What the controller adds to the agent container (SPEC.md, Harness). A template may not set any of it.
const (
	EnvPodNamespace = "POD_NAMESPACE"
	EnvPodName      = "POD_NAME"
	EnvPodUID       = "POD_UID"
	EnvToken        = "HEARTH_DELIVERY_TOKEN"
	EnvViewKey      = "HEARTH_ACP_VIEW_KEY"
	EnvSteerKey     = "HEARTH_ACP_STEER_KEY"
	EnvGoalFile     = "HEARTH_GOAL_FILE"
	EnvDataDir      = "HEARTH_DATA_DIR"
	EnvConcurrency  = "HEARTH_CONCURRENCY"
	EnvQueue        = "HEARTH_QUEUE"
	EnvPermissions  = "HEARTH_PERMISSIONS"
	EnvAskTimeout   = "HEARTH_ASK_TIMEOUT"
	EnvSteering     = "HEARTH_STEERING"
	EnvOutput       = "HEARTH_OUTPUT"
	EnvEndpoint     = "HEARTH_ENDPOINT"
	EnvACP          = "HEARTH_ACP_LISTEN"
	EnvDelivery     = "HEARTH_DELIVERY_LISTEN"
	EnvScheme       = "HEARTH_DELIVERY_SCHEME"
	EnvDrain        = "HEARTH_DRAIN"
	// Of `harness serve` only.
	EnvSession = "HEARTH_SESSION"
	// Of `harness run` only: whose goal it is.
	EnvRunUID = "HEARTH_RUN_UID"
	// Of `harness run` only: a one-shot run's own time, its budget, and where its envelope goes.
	EnvActiveDeadline = "HEARTH_ACTIVE_DEADLINE"
	EnvBudgetTokens   = "HEARTH_BUDGET_TOKENS"
	EnvBudgetCost     = "HEARTH_BUDGET_COST" // amount, a space, currency
	EnvTerminationLog = "HEARTH_TERMINATION_LOG"
	// EnvTerminationBytes is how much of that kubelet keeps, where it is less than usual.
	EnvTerminationBytes = "HEARTH_TERMINATION_BYTES"

	// VolumePrefix begins the names of our volumes.
	VolumePrefix = "hearth-"
	VolumeData   = "hearth-data"
	VolumeGoal   = "hearth-goal"
	VolumeTmp    = "hearth-tmp"

	// DataDir holds journal and transcripts; GoalDir the goal's file.
	DataDir = "/var/lib/hearth"
	GoalDir = "/etc/hearth"
	TmpDir  = "/tmp"
)

// maxGrace bounds a template's terminationGracePeriodSeconds, as other deadlines are: a time of centuries is none that could be counted.
const maxGrace = 365 * 24 * 60 * 60

// ReservedEnv are the variables that the controller sets.
func ReservedEnv() []string {
	return []string{EnvPodNamespace, EnvPodName, EnvPodUID, EnvToken, EnvViewKey, EnvSteerKey, EnvGoalFile, EnvDataDir, EnvConcurrency, EnvQueue, EnvPermissions, EnvAskTimeout, EnvSteering, EnvOutput, EnvEndpoint, EnvSession, EnvACP, EnvDelivery, EnvScheme, EnvDrain,
		EnvRunUID, EnvActiveDeadline, EnvBudgetTokens, EnvBudgetCost, EnvTerminationLog, EnvTerminationBytes}
}

// Contradiction is one field of a template that contradicts the contract, and what is expected instead.
type Contradiction struct {
	Field    string
	Expected string
}

func (c Contradiction) String() string { return c.Field + ": " + c.Expected }

// Contradictions are the fields of an Agent's template that its Pods cannot have (SPEC.md, Resources; Identity): of a Service Agent
// standing ones, of the others one-shot ones. An empty list means that the Pod can be built.
func Contradictions(spec *v1alpha1.AgentSpec) []Contradiction {
	t := &templateCheck{spec: spec}
	t.metadata()
	t.hostname()
	t.pod()
	agent := slices.IndexFunc(spec.Template.Spec.Containers, func(c corev1.Container) bool { return c.Name == v1alpha1.AgentContainer })
	if agent < 0 {
		t.add("spec.template.spec.containers", "expected a container named %q: it runs the harness", v1alpha1.AgentContainer)
		return t.found
	}
	t.agent(fmt.Sprintf("spec.template.spec.containers[%d]", agent), &spec.Template.Spec.Containers[agent])
	t.ports()
	if t.oneShot() {
		t.restarts()
	}
	return t.found
}

type templateCheck struct {
	spec  *v1alpha1.AgentSpec
	found []Contradiction
}

func (t *templateCheck) add(field, expected string, args ...any) {
	t.found = append(t.found, Contradiction{Field: field, Expected: fmt.Sprintf(expected, args...)})
}

func (t *templateCheck) metadata() {
	m := t.spec.Template.ObjectMeta
	const at = "spec.template.metadata."
	for field, set := range map[string]bool{"name": m.Name != "", "generateName": m.GenerateName != "", "namespace": m.Namespace != "",
		"ownerReferences": len(m.OwnerReferences) > 0, "finalizers": len(m.Finalizers) > 0} {
		if set {
			t.add(at+field, "expected it not to be set: only labels and annotations are copied")
		}
	}
	for field, keys := range map[string]map[string]string{"labels": m.Labels, "annotations": m.Annotations} {
		for key := range keys {
			if strings.HasPrefix(key, v1alpha1.LabelPrefix) {
				t.add(at+field, "expected no key under %s: they are the controller's", v1alpha1.LabelPrefix)
				break
			}
		}
	}
	slices.SortFunc(t.found, func(a, b Contradiction) int { return strings.Compare(a.Field, b.Field) })
}

// hostname: the harness proves its identity by the hostname that kubelet derives from the Pod's name.
func (t *templateCheck) hostname() {
	p := &t.spec.Template.Spec
	for _, f := range []struct {
		field string
		set   bool
	}{
		{"hostNetwork", p.HostNetwork},
		{"hostPID", p.HostPID},
		{"shareProcessNamespace", p.ShareProcessNamespace != nil && *p.ShareProcessNamespace},
		{"hostname", p.Hostname != ""},
		{"subdomain", p.Subdomain != ""},
		{"setHostnameAsFQDN", p.SetHostnameAsFQDN != nil && *p.SetHostnameAsFQDN},
		{"hostnameOverride", p.HostnameOverride != nil},
	} {
		if f.set {
			t.add("spec.template.spec."+f.field, "expected it not to be set: the Pod's identity is its own name, processes and network")
		}
	}
}

// oneShot: the Pod carries one run out and ends with it.
func (t *templateCheck) oneShot() bool {
	return t.spec.Mode == v1alpha1.AgentModeTask || t.spec.Mode == v1alpha1.AgentModeScheduled
}

func (t *templateCheck) pod() {
	p := &t.spec.Template.Spec
	switch {
	case t.oneShot() && p.RestartPolicy != "" && p.RestartPolicy != corev1.RestartPolicyNever:
		t.add("spec.template.spec.restartPolicy", "expected Never or nothing: a run is started at most once")
	case !t.oneShot() && p.RestartPolicy != "" && p.RestartPolicy != corev1.RestartPolicyAlways:
		t.add("spec.template.spec.restartPolicy", "expected Always or nothing: a standing agent restarts in its Pod")
	}
	if t.oneShot() && p.ActiveDeadlineSeconds != nil {
		t.add("spec.template.spec.activeDeadlineSeconds", "expected it not to be set: spec.activeDeadlineSeconds bounds a run's own time, and its result is kept then")
	}
	if g := p.TerminationGracePeriodSeconds; g != nil && (*g < 0 || *g > maxGrace) {
		t.add("spec.template.spec.terminationGracePeriodSeconds", "expected 0 to %d, a year: what runs is given that long to end", maxGrace)
	}
	for i, v := range p.Volumes {
		if strings.HasPrefix(v.Name, VolumePrefix) {
			t.add(fmt.Sprintf("spec.template.spec.volumes[%d].name", i), "expected no name that begins with %q: the controller adds those volumes", VolumePrefix)
		}
	}
}
