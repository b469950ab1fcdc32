package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// How long to leave an API server alone after it did not answer, or ended a watch.
const (
	firstPause = 250 * time.Millisecond
	longPause  = 5 * time.Second
	pauseSteps = 1 << 20
)

// Watch tells of AgentRuns as they are and as they change. What ends a watch ends nothing here: it lists and watches again, for as
// long as ctx lasts, and nothing is missed but states in between.
type Watch struct {
	// Options choose the runs.
	Options []client.ListOption
	// Known are runs that were seen before: one that is gone by the time of the first list is told as gone.
	Known []*hearthv1.AgentRun
	// See gets a run, as it is now or, with gone, as it was last seen before it was deleted. With done the watch ends.
	See func(run *hearthv1.AgentRun, gone bool) (done bool)
	// Listed, if set, is called when all that there is at the beginning was seen.
	Listed func()
	// Trouble gets what keeps the API server from answering, and nil when it answers again.
	Trouble func(err error)

	client client.WithWatch
	seen   map[types.UID]*hearthv1.AgentRun
	failed bool // the last try did
	ever   bool // one did not
	// watched is set once a watch has begun: who may list may lack that right.
	watched bool
	pause   wait.Backoff
}

// Run watches until See says done; its error is then nil. What can never work is explained; a right that is missing is so only
// before the first watch, for an API server that starts refuses what it will allow.
func (w *Watch) Run(ctx context.Context, e *Env) error {
	c, err := e.Client()
	if err != nil {
		return err
	}
	w.client, w.seen = c, map[types.UID]*hearthv1.AgentRun{}
	for _, run := range w.Known {
		w.seen[run.UID] = run
	}
	w.rested()
	for {
		done, err := w.once(ctx)
		switch {
		case done:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && (!w.watched && final(err) || meta.IsNoMatchError(err)):
			return e.Explain(err)
		case err != nil && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err):
			w.trouble(err)
		}
		timer := time.NewTimer(w.pause.Step())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// final tells what asking again does not change.
func final(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) || apierrors.IsBadRequest(err) || apierrors.IsInvalid(err)
}

func (w *Watch) rested() {
	w.pause = wait.Backoff{Duration: firstPause, Factor: 2, Jitter: 0.2, Steps: pauseSteps, Cap: longPause}
}

func (w *Watch) trouble(err error) {
	if (err != nil) != w.failed && w.Trouble != nil {
		w.Trouble(err)
	}
	w.failed = err != nil
}

// once lists, and watches from there until the watch ends.
func (w *Watch) once(ctx context.Context) (done bool, err error) {
	var list hearthv1.AgentRunList
	if err := w.client.List(ctx, &list, w.Options...); err != nil {
		return false, err
	}
	if w.listed(&list) {
		return true, nil
	}
	if !w.ever && w.Listed != nil {
		w.Listed()
	}
	w.ever = true
	from := client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion, AllowWatchBookmarks: true}}
	events, err := w.client.Watch(ctx, &hearthv1.AgentRunList{}, append([]client.ListOption{&from}, w.Options...)...)
	if err != nil {
		return false, err
	}
	w.trouble(nil)
	w.watched = true
	defer events.Stop()
	for event := range events.ResultChan() {
		if done, err := w.event(event); done || err != nil {
			return done, err
		}
	}
	return false, nil
}

// listed compares what there is with what was seen.
func (w *Watch) listed(list *hearthv1.AgentRunList) (done bool) {
	there := map[types.UID]bool{}
	for i := range list.Items {
		there[list.Items[i].UID] = true
	}
	for uid, run := range w.seen {
		if !there[uid] {
			delete(w.seen, uid)
			if w.See(run, true) {
				return true
			}
		}
	}
	for i := range list.Items {
		if w.saw(&list.Items[i]) {
			return true
		}
	}
	return false
}

func (w *Watch) saw(run *hearthv1.AgentRun) (done bool) {
	if before := w.seen[run.UID]; before != nil && before.ResourceVersion == run.ResourceVersion && w.ever {
		return false // listed again, unchanged
	}
	w.seen[run.UID] = run
	return w.See(run, false)
}

func (w *Watch) event(event watch.Event) (done bool, err error) {
	if event.Type == watch.Error {
		return false, apierrors.FromObject(event.Object)
	}
	w.rested() // it is a watch that works
	run, ok := event.Object.(*hearthv1.AgentRun)
	switch {
	case event.Type == watch.Bookmark:
		return false, nil
	case !ok:
		return false, fmt.Errorf("watch: expected an AgentRun, got a %T", event.Object)
	case event.Type == watch.Deleted:
		delete(w.seen, run.UID)
		return w.See(run, true), nil
	default:
		return w.saw(run), nil
	}
}

// Stopped tells whether an error only says that somebody ended the context.
func Stopped(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
