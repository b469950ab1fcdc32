package admission

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

// garbageCollector is the user that Kubernetes' garbage collector writes as: it takes owner references away when an owner is
// deleted with --cascade=orphan.
const garbageCollector = "system:serviceaccount:kube-system:generic-garbage-collector"

// Four digits at most: what generateName appends has five characters, so it never makes a reserved name.
var standingName = regexp.MustCompile(`^(.+)-[0-9]{1,4}$`)

// standingNameOf is the Agent whose standing runs could have this name, "" if none could (R23).
func standingNameOf(run string) string {
	if m := standingName.FindStringSubmatch(run); m != nil {
		return m[1]
	}
	return ""
}

// forged are the marks of the controller that differ between two versions of an object; before is nil at creation (R31).
func forged(before, after metav1.Object) []Refusal {
	if before == nil {
		before = &metav1.ObjectMeta{}
	}
	var refusals []Refusal
	for _, m := range []struct {
		field         string
		before, after map[string]string
	}{
		{"metadata.labels", before.GetLabels(), after.GetLabels()},
		{"metadata.annotations", before.GetAnnotations(), after.GetAnnotations()},
	} {
		if !maps.Equal(ours(m.before), ours(m.after)) {
			refusals = append(refusals, Refusal{codeForbidden, m.field,
				fmt.Sprintf("expected no change of keys under %s: only the controller writes and removes them", v1alpha1.LabelPrefix)})
		}
	}
	if !equality.Semantic.DeepEqual(ourOwners(before), ourOwners(after)) {
		refusals = append(refusals, Refusal{codeForbidden, "metadata.ownerReferences",
			fmt.Sprintf("expected no change of references to kinds of %s: only the controller writes and removes them", v1alpha1.GroupVersion.Group)})
	}
	return refusals
}

func ours(m map[string]string) map[string]string {
	kept := map[string]string{}
	for key, value := range m {
		if strings.HasPrefix(key, v1alpha1.LabelPrefix) {
			kept[key] = value
		}
	}
	return kept
}

func ourOwners(o metav1.Object) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(o.GetOwnerReferences()), func(r metav1.OwnerReference) bool {
		gv, err := schema.ParseGroupVersion(r.APIVersion)
		return err != nil || gv.Group != v1alpha1.GroupVersion.Group
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
		{"spec.backoffLimit", equality.Semantic.DeepEqual(a.BackoffLimit, b.BackoffLimit)},
	} {
		if !f.same {
			fields = append(fields, f.field)
		}
	}
	return fields
}

// immutable refuses every change of a stored spec but cancel from false to true.
func immutable(before, after *v1alpha1.AgentRunSpec) []Refusal {
	var refusals []Refusal
	for _, field := range changed(before, after) {
		refusals = append(refusals, Refusal{codeForbidden, field, "expected no change: a run's spec is immutable but for cancel; make a new run"})
	}
	if before.Cancel && !after.Cancel {
		refusals = append(refusals, Refusal{codeForbidden, "spec.cancel", "expected it to stay true: a cancel cannot be taken back"})
	}
	return refusals
}
