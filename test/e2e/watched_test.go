//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// watched is every state of every run of a namespace that the API server told, from before the first one existed.
type watched struct {
	mu       sync.Mutex
	states   []state
	records  map[types.UID]string
	problems []string
	more     chan struct{} // closed and made anew at each state
	// again has a watch that ended begun again: a CRD that changes ends those of its kind.
	again bool
	// over ends the watch before the test ends.
	over func()
}

// state is a run as it was seen at that time.
type state struct {
	at      time.Time
	run     *hearthv1.AgentRun
	deleted bool
}

func watchRuns(t *testing.T, namespace string) *watched {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context())) // the test's own ends before its cleanup verifies
	w := &watched{records: map[types.UID]string{}, more: make(chan struct{}), over: stop}
	stream, err := suite.Client.Watch(ctx, &hearthv1.AgentRunList{}, client.InNamespace(namespace))
	require.NoError(t, err)
	go func() {
		for {
			for event := range stream.ResultChan() {
				if ctx.Err() == nil { // afterwards it says that it was ended
					w.saw(time.Now(), event)
				}
			}
			next, err := w.next(ctx, namespace)
			if next == nil {
				w.closed(ctx, err)
				return
			}
			stream = next
		}
	}()
	t.Cleanup(stop)
	return w
}

// next is the watch after one that ended, if the test said that it would; it begins with all runs as they are.
func (w *watched) next(ctx context.Context, namespace string) (watch.Interface, error) {
	w.mu.Lock()
	again := w.again
	w.mu.Unlock()
	if !again || ctx.Err() != nil {
		return nil, nil
	}
	var stream watch.Interface
	err := suite.Wait(ctx, "a watch of "+namespace, shortly, func(ctx context.Context) (bool, string, error) {
		var err error
		stream, err = suite.Client.Watch(context.WithoutCancel(ctx), &hearthv1.AgentRunList{}, client.InNamespace(namespace))
		return err == nil, "", err
	})
	if err == nil {
		context.AfterFunc(ctx, stream.Stop)
	}
	return stream, err
}

// mayEnd: the test changes the CRD.
func (w *watched) mayEnd() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.again = true
}

func (w *watched) saw(at time.Time, event watch.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	run, ok := event.Object.(*hearthv1.AgentRun)
	if !ok {
		w.problems = append(w.problems, fmt.Sprintf("the watch said %s: %v", event.Type, event.Object))
		return
	}
	w.states = append(w.states, state{at: at, run: run, deleted: event.Type == watch.Deleted})
	w.keepRecord(run)
	close(w.more)
	w.more = make(chan struct{})
}

// keepRecord holds each run to I2: one terminal record, whose content never changes.
func (w *watched) keepRecord(run *hearthv1.AgentRun) {
	status, err := json.Marshal(run.Status)
	if err != nil {
		w.problems = append(w.problems, fmt.Sprintf("run %s: %v", run.Name, err))
		return
	}
	record, had := w.records[run.UID]
	switch {
	case had && record != string(status):
		w.problems = append(w.problems, fmt.Sprintf("the record of run %s changed from %s to %s", run.Name, record, status))
	case !had && run.Status.CompletionTime != nil:
		w.records[run.UID] = string(status)
	}
}

// closed: a watch that ends before its test leaves a time in which anything may have happened.
func (w *watched) closed(ctx context.Context, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() == nil {
		w.problems = append(w.problems, fmt.Sprintf("the watch ended before the test did (%v)", err))
	}
}

func (w *watched) verify(t *testing.T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	assert.Empty(t, w.problems)
}

// first waits for the first state, of those seen already and those to come, that looks as wanted.
func (w *watched) first(ctx context.Context, limit time.Duration, wanted func(*hearthv1.AgentRun) bool) (state, error) {
	return w.firstAfter(ctx, time.Time{}, limit, wanted)
}

// firstAfter is the same of the states that were seen since then.
func (w *watched) firstAfter(ctx context.Context, since time.Time, limit time.Duration, wanted func(*hearthv1.AgentRun) bool) (state, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for next := 0; ; {
		w.mu.Lock()
		states, more := w.states, w.more
		w.mu.Unlock()
		for ; next < len(states); next++ {
			if !states[next].deleted && !states[next].at.Before(since) && wanted(states[next].run) {
				return states[next], nil
			}
		}
		select {
		case <-more:
		case <-ctx.Done():
			return state{}, fmt.Errorf("no such state among %d within %s: %w", len(states), limit, ctx.Err())
		}
	}
}

// of are the states of one run so far.
func (w *watched) of(name string) []state {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []state
	for _, s := range w.states {
		if s.run.Name == name {
			found = append(found, s)
		}
	}
	return found
}
