package pod

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

// CacheOptions restricts a manager's Pod cache to Pods with the label that the controller stamps (R6). Because a Pod whose label
// was removed vanishes from such a cache, nothing may be called gone without a live read.
func CacheOptions() cache.Options {
	return cache.Options{ByObject: map[client.Object]cache.ByObject{
		&corev1.Pod{}: {Label: Selector()},
	}}
}

// Selector selects the Pods that the controller stamped.
func Selector() labels.Selector {
	ours, err := labels.NewRequirement(v1alpha1.LabelRun, selection.Exists, nil)
	if err != nil {
		panic("the label of a run is no valid label: " + err.Error()) // a constant of ours; a test builds it
	}
	return labels.NewSelector().Add(*ours)
}
