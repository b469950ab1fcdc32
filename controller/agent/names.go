package agent

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

const (
	// maxNumber: names of up to four digits are reserved for standing runs (R23).
	maxNumber = 9999
	// maxMade is how many standing runs are made in one pass; the next one follows at once.
	maxMade = 10
	// refusedFor is how long a name is left alone that the API server said is taken though the cache has nobody of that name: a run of
	// another shard, of which there is no cache here.
	refusedFor = time.Minute
)

// nameOf is the name of an Agent's n-th standing run.
func nameOf(agent string, n int) string { return fmt.Sprintf("%s-%d", agent, n) }

// free gives the lowest free names, at most maxMade. One is taken by a run, whoever made it, and by a Pod that still ends under it.
func (r *Reconciler) free(ctx context.Context, agent *v1alpha1.Agent, runs []v1alpha1.AgentRun) ([]string, error) {
	listed := make(map[string]bool, len(runs))
	for i := range runs {
		listed[runs[i].Name] = true
	}
	var names []string
	for n := 1; n <= maxNumber && len(names) < maxMade; n++ {
		name := nameOf(agent.Name, n)
		if listed[name] {
			continue
		}
		taken, err := r.taken(ctx, client.ObjectKey{Namespace: agent.Namespace, Name: name})
		if err != nil {
			return nil, err
		}
		if !taken {
			names = append(names, name)
		}
	}
	return names, nil
}

func (r *Reconciler) taken(ctx context.Context, key client.ObjectKey) (bool, error) {
	if r.refused(key) {
		return true, nil
	}
	for _, object := range []client.Object{&v1alpha1.AgentRun{}, &corev1.Pod{}} {
		if err := r.Client.Get(ctx, key, object); err == nil {
			return true, nil
		} else if !apierrors.IsNotFound(err) {
			return false, fmt.Errorf("look for a free name: %w", err)
		}
	}
	return false, nil
}

// refused tells whether the API server refused a run of that name a moment ago, because there is one.
func (r *Reconciler) refused(name client.ObjectKey) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, was := r.names[name]
	if was && r.Now().Sub(at) >= refusedFor {
		delete(r.names, name)
		return false
	}
	return was
}

func (r *Reconciler) refuse(name client.ObjectKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.names == nil {
		r.names = map[client.ObjectKey]time.Time{}
	}
	maps.DeleteFunc(r.names, func(_ client.ObjectKey, at time.Time) bool { return r.Now().Sub(at) >= refusedFor })
	r.names[name] = r.Now()
}
