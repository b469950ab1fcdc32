package admission

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

// The users that Kubernetes' garbage collector writes as, the second where the controllers of a cluster share one. It takes owner
// references away when an owner is deleted with --cascade=orphan.
const (
	garbageCollector = "system:serviceaccount:kube-system:generic-garbage-collector"
	allInOneManager  = "system:kube-controller-manager"
)

// Four digits at most, or eight and more: what generateName appends has five characters, so it never makes a reserved name.
var (
	standingName  = regexp.MustCompile(`^(.+)-[0-9]{1,4}$`)
	scheduledName = regexp.MustCompile(`^(.+)-[0-9]{8,10}$`)
)

// makerOf is the name of the Agent whose own runs could have this name, "" if there could be none, and whether that takes a
// Scheduled one (R23).
func makerOf(run string) (agent string, scheduled bool) {
	if m := standingName.FindStringSubmatch(run); m != nil {
		return m[1], false
	}
	if m := scheduledName.FindStringSubmatch(run); m != nil {
		return m[1], true
	}
	return "", false
}

// named: Pod, Service and host of a run that has a Pod are named as it is.
func named(run *v1alpha1.AgentRun) []Refusal {
	if run.Delivered() || len(validation.IsDNS1035Label(run.Name)) == 0 {
		return nil
	}
	return []Refusal{{codeInvalid, "metadata.name", fmt.Sprintf("expected at most %d lower-case letters, digits and -, beginning with a letter and not ending with -: "+
		"this run has a Pod of its own, and Pod, Service and host are named as the run is", validation.DNS1035LabelMaxLength)}}
}

// forged are the marks of the controller that differ between two versions of an object; before is nil at creation (R31). Free are
// those that are judged elsewhere: the shard, and of a run the annotations that are its author's.
func forged(before, after metav1.Object, free ...string) []Refusal {
	if before == nil {
		before = &metav1.ObjectMeta{}
	}
	var refusals []Refusal
	for _, m := range []struct {
		field         string
		before, after map[string]string
		free          []string
	}{
		{"metadata.labels", before.GetLabels(), after.GetLabels(), shardKey},
		{"metadata.annotations", before.GetAnnotations(), after.GetAnnotations(), free},
	} {
		if !maps.Equal(ours(m.before, m.free), ours(m.after, m.free)) {
			refusals = append(refusals, Refusal{codeForbidden, m.field,
				fmt.Sprintf("expected no change of keys under %s: only the controller writes and removes them; use keys of another prefix", v1alpha1.LabelPrefix)})
		}
	}
	if !equality.Semantic.DeepEqual(ourOwners(before), ourOwners(after)) {
		refusals = append(refusals, Refusal{codeForbidden, "metadata.ownerReferences",
			fmt.Sprintf("expected no change of references to kinds of %s: only the controller writes and removes them; a run says whose it is in spec.agentRef.name", v1alpha1.GroupVersion.Group)})
	}
	return refusals
}

// statusWrite refuses every write of a status: what the controller did and saw stands there, and it believes it after a restart.
func statusWrite(instead string) []Refusal {
	return []Refusal{{codeForbidden, "status", "expected nobody but the controller to write it: it says what happened; " + instead}}
}

// held refuses new finalizers on a standing run: it, and the deletion of its Agent, would hang. Removing one is always allowed.
func held(before, after *v1alpha1.AgentRun) []Refusal {
	if !before.Standing() {
		return nil
	}
	for _, finalizer := range after.Finalizers {
		if !slices.Contains(before.Finalizers, finalizer) {
			return []Refusal{{codeForbidden, "metadata.finalizers", "expected no new one: a standing run ends when its Agent says so; put yours on the Agent or on a run of your own"}}
		}
	}
	return nil
}

func ours(m map[string]string, free []string) map[string]string {
	kept := map[string]string{}
	for key, value := range m {
		if strings.HasPrefix(key, v1alpha1.LabelPrefix) && !slices.Contains(free, key) {
			kept[key] = value
		}
	}
	return kept
}

// ourOwners are the references to our group, however its version, its kind and its case are written: the API server checks none of them.
func ourOwners(o metav1.Object) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(o.GetOwnerReferences()), func(r metav1.OwnerReference) bool {
		group, _, _ := strings.Cut(r.APIVersion, "/")
		return !strings.EqualFold(group, v1alpha1.GroupVersion.Group)
	})
}

// changed are the fields in which two specs differ, cancel apart.
func changed(a, b *v1alpha1.AgentRunSpec) []string {
	var fields []string
	for _, f := range []struct {
		field string
		same  bool
	}{
		{"spec.agentRef", a.AgentRef == b.AgentRef},
		{"spec.parameters", equality.Semantic.DeepEqual(a.Parameters, b.Parameters)},
		{"spec.goal", a.Goal == b.Goal},
		{"spec.delivery", equality.Semantic.DeepEqual(a.Delivery, b.Delivery)},
		{"spec.runtime", equality.Semantic.DeepEqual(a.Runtime, b.Runtime)},
		{"spec.template", equality.Semantic.DeepEqual(a.Template, b.Template)},
		{"spec.activeDeadlineSeconds", equality.Semantic.DeepEqual(a.ActiveDeadlineSeconds, b.ActiveDeadlineSeconds)},
		{"spec.startingDeadlineSeconds", equality.Semantic.DeepEqual(a.StartingDeadlineSeconds, b.StartingDeadlineSeconds)},
		{"spec.backend", a.Backend == b.Backend},
		{"spec.ttlSecondsAfterFinished", equality.Semantic.DeepEqual(a.TTLSecondsAfterFinished, b.TTLSecondsAfterFinished)},
		{"spec.budget", equality.Semantic.DeepEqual(a.Budget, b.Budget)},
		{"spec.backoffLimit", equality.Semantic.DeepEqual(a.BackoffLimit, b.BackoffLimit)},
	} {
		if !f.same {
			fields = append(fields, f.field)
		}
	}
	return fields
}

// immutable refuses every change of a stored spec but cancel from false to true.
func immutable(before, after *v1alpha1.AgentRun) []Refusal {
	expected := "expected no change: a run's spec is immutable but for cancel; make a new run"
	if before.Standing() {
		expected = "expected no change: a standing run is made from its Agent; change the Agent"
	}
	var refusals []Refusal
	for _, field := range changed(&before.Spec, &after.Spec) {
		refusals = append(refusals, Refusal{codeForbidden, field, expected})
	}
	if before.Spec.Cancel && !after.Spec.Cancel {
		refusals = append(refusals, Refusal{codeForbidden, "spec.cancel", "expected it to stay true: a cancel cannot be taken back; make a new run"})
	}
	return refusals
}
