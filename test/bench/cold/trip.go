package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/cluster"
)

const tripLimit = 2 * time.Minute

// warm is the trip of a run that a standing agent carries out.
func (s *scene) warm(ctx context.Context, agent string) (trip, error) {
	ctx, cancel := context.WithTimeout(ctx, tripLimit)
	defer cancel()
	run, t, err := s.ask(ctx, agent, "warm")
	if err != nil {
		return t, err
	}
	if err := s.ended(ctx, run); err != nil {
		return t, err
	}
	if t.asked, err = s.Mark(ctx, s.namespace, run.Name); err != nil { // not before: the API server is at work for the run until then
		return t, err
	}
	d := run.Status.Delivery
	if d == nil || d.ReservedAt == nil || d.AcceptedAt == nil || run.Status.StartTime == nil || run.Status.RecordedAt == nil {
		return t, fmt.Errorf("run %s: its record lacks times", run.Name)
	}
	t.reserved, t.accepted, t.started, t.recorded = d.ReservedAt.Time, d.AcceptedAt.Time, run.Status.StartTime.Time, run.Status.RecordedAt.Time
	return t, nil
}

// ask makes a run whose goal marks its request at the model with the run's name.
func (s *scene) ask(ctx context.Context, agent, kind string) (*hearthv1.AgentRun, trip, error) {
	name := s.name(kind)
	run := &hearthv1.AgentRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec:       hearthv1.AgentRunSpec{AgentRef: hearthv1.AgentRef{Name: agent}, Parameters: map[string]string{"task": goal(name)}},
	}
	t := trip{sent: time.Now()}
	return run, t, s.create(ctx, run)
}

func goal(mark string) string { return "mark: " + mark + " ;; say: hello" }

// ended waits, without asking anything, until the run's record is there.
func (s *scene) ended(ctx context.Context, run *hearthv1.AgentRun) error {
	for {
		select {
		case event, open := <-s.runs.ResultChan():
			if !open {
				return fmt.Errorf("run %s: the watch ended before it did", run.Name)
			}
			seen, ok := event.Object.(*hearthv1.AgentRun)
			if !ok || seen.UID != run.UID || seen.Status.CompletionTime == nil {
				continue
			}
			*run = *seen
			if succeeded := cluster.Condition(run.Status.Conditions, hearthv1.AgentRunConditionSucceeded); succeeded.Status != metav1.ConditionTrue {
				return fmt.Errorf("run %s: expected it to succeed, is %s: %s", run.Name, succeeded.Reason, run.Status.Message)
			}
			return nil
		case <-ctx.Done():
			return fmt.Errorf("run %s did not end: %w", run.Name, ctx.Err())
		}
	}
}

// ownPod is the trip of a run that gets a Pod of its own, as it would without a standing agent.
func (s *scene) ownPod(ctx context.Context) (trip, error) {
	ctx, cancel := context.WithTimeout(ctx, tripLimit)
	defer cancel()
	run, t, err := s.ask(ctx, alone, "own-pod")
	if err != nil {
		return t, err
	}
	if t.asked, err = s.Mark(ctx, s.namespace, run.Name); err != nil {
		return t, err
	}
	if err := s.ended(ctx, run); err != nil {
		return t, err
	}
	return t, s.gone(ctx, run, run.Status.PodName)
}

// barePod is the trip of a goal that a Pod of the same image gets on its command line.
func (s *scene) barePod(ctx context.Context) (trip, error) {
	ctx, cancel := context.WithTimeout(ctx, tripLimit)
	defer cancel()
	name := s.name("bare-pod")
	pod := s.pod(name, goal(name))
	t := trip{sent: time.Now()}
	err := s.create(ctx, pod)
	if err != nil {
		return t, err
	}
	if t.asked, err = s.Mark(ctx, s.namespace, name); err != nil {
		return t, err
	}
	return t, s.gone(ctx, pod, name)
}

// gone deletes what had a Pod and waits until the Pod is no more, so that its end does not take time from what comes next.
func (s *scene) gone(ctx context.Context, owner client.Object, pod string) error {
	if err := s.Client.Delete(ctx, owner, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s: %w", owner.GetName(), err)
	}
	return s.Wait(ctx, "end of Pod "+pod, goneLimit, func(ctx context.Context) (bool, string, error) {
		err := s.Client.Get(ctx, s.key(pod), &corev1.Pod{})
		return apierrors.IsNotFound(err), "gone or going", client.IgnoreNotFound(err)
	})
}
