package pod

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/api/shard"
	"github.com/hearthdev/hearth/api/v1alpha1"
)

// CacheOptions restricts a manager's caches of Pods and Services to those with the label that the controller stamps (R6). Because what
// lost its label vanishes from such a cache, nothing may be called gone without a live read.
func CacheOptions() cache.Options { return CacheOptionsOf(shard.All()) }

// CacheOptionsOf are CacheOptions of a controller that works for some shards.
func CacheOptionsOf(of shard.Set) cache.Options {
	return cache.Options{ByObject: map[client.Object]cache.ByObject{
		&corev1.Pod{}:     {Label: SelectorOf(of), Transform: Transform},
		&corev1.Service{}: {Label: SelectorOf(of)},
	}}
}

// Transform is for the cache of Pods: of what a Pod is made of only that is kept which somebody reads again, which is next to nothing.
// There is one for each target, and one for each record as long as that stays; what is in the cache is never written back.
func Transform(object any) (any, error) {
	p, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	p.ManagedFields = nil
	kept := corev1.PodSpec{NodeName: p.Spec.NodeName, RestartPolicy: p.Spec.RestartPolicy, TerminationGracePeriodSeconds: p.Spec.TerminationGracePeriodSeconds}
	if !Ended(p) { // it may be over before its phase says so: when as many containers as it has are
		kept.Containers = make([]corev1.Container, len(p.Spec.Containers))
		for i := range kept.Containers {
			kept.Containers[i].Name = p.Spec.Containers[i].Name
		}
	}
	p.Spec = kept
	return p, nil
}

// Selector selects what the controller stamped.
func Selector() labels.Selector { return SelectorOf(shard.All()) }

// SelectorOf selects what was stamped of some shards.
func SelectorOf(of shard.Set) labels.Selector {
	ours, err := labels.NewRequirement(v1alpha1.LabelRun, selection.Exists, nil)
	if err != nil {
		panic("the label of a run is no valid label: " + err.Error()) // a constant of ours; a test builds it
	}
	return of.Selector().Add(*ours)
}
