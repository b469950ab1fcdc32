package kube

import (
	"context"
	"errors"
	"net"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// played is an API server whose answers are written down: for each list one step, with the events of the watch after it.
type played struct {
	client.WithWatch
	mu    sync.Mutex
	steps []step
	at    int
}

type step struct {
	listErr, watchErr error
	runs              []hearthv1.AgentRun
	events            []watch.Event // then the watch is cut
}

func (p *played) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.steps[min(p.at, len(p.steps)-1)]
	p.at++
	if s.listErr != nil {
		return s.listErr
	}
	list.(*hearthv1.AgentRunList).Items = s.runs
	return nil
}

func (p *played) Watch(context.Context, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.steps[min(p.at, len(p.steps))-1]
	if s.watchErr != nil {
		return nil, s.watchErr
	}
	w := watch.NewFakeWithChanSize(len(s.events), false)
	for _, e := range s.events {
		w.Action(e.Type, e.Object)
	}
	w.Stop()
	return w, nil
}

func version(uid, resource string) hearthv1.AgentRun {
	return hearthv1.AgentRun{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: types.UID(uid), ResourceVersion: resource}}
}

func event(kind watch.EventType, uid, resource string) watch.Event {
	run := version(uid, resource)
	return watch.Event{Type: kind, Object: &run}
}

var (
	away      = &url.Error{Op: "Get", URL: "https://k", Err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}}
	forbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "agentruns"}, "", errors.New("no"))
	expired   = apierrors.NewResourceExpired("too old").Status()
)

// A cut watch, an old resource version, an API server that is away and one that is starting end no waiting; nothing is told twice.
func TestAWatchSurvives(t *testing.T) { synctest.Test(t, survives) }

func survives(t *testing.T) {
	p := &played{steps: []step{
		{runs: []hearthv1.AgentRun{version("a", "1"), version("b", "1")}, events: []watch.Event{event(watch.Modified, "a", "2")}},
		{runs: []hearthv1.AgentRun{version("a", "2"), version("b", "1")}, events: []watch.Event{{Type: watch.Error, Object: runtime.Object(&expired)}}},
		{listErr: away},
		{listErr: away},
		{listErr: forbidden}, // its roles are not loaded yet
		{runs: []hearthv1.AgentRun{version("a", "3")}, watchErr: away},
		{runs: []hearthv1.AgentRun{version("a", "3"), version("c", "1")},
			events: []watch.Event{{Type: watch.Bookmark, Object: &hearthv1.AgentRun{}}, event(watch.Deleted, "c", "1"), event(watch.Modified, "a", "9"), event(watch.Modified, "a", "10")}},
	}}
	env := chosen(t)
	env.Use(p)
	var told []string
	w := Watch{
		Known: []*hearthv1.AgentRun{{ObjectMeta: metav1.ObjectMeta{UID: "z", ResourceVersion: "0"}}},
		See: func(run *hearthv1.AgentRun, gone bool) bool {
			word := string(run.UID) + run.ResourceVersion
			if gone {
				word += " gone"
			}
			told = append(told, word)
			return run.ResourceVersion == "9"
		},
		Listed: func() { told = append(told, "listed") },
		Trouble: func(err error) {
			if err == nil {
				told = append(told, "back")
			} else {
				told = append(told, "away")
			}
		},
	}
	require.NoError(t, w.Run(t.Context(), env))
	assert.Equal(t, []string{"z0 gone", "a1", "b1", "listed", "a2", "away", "b1 gone", "a3", "c1", "back", "c1 gone", "a9"}, told)
}

// What asking again does not change is said at once.
func TestAWatchThatIsForbiddenEnds(t *testing.T) {
	for _, s := range []step{{listErr: forbidden}, {listErr: apierrors.NewUnauthorized("who?")}, {watchErr: forbidden}} { // or may list only
		env := chosen(t)
		env.Use(&played{steps: []step{s}})
		err := (&Watch{See: func(*hearthv1.AgentRun, bool) bool { return false }}).Run(t.Context(), env)
		assert.Equal(t, ExitUnavailable, Code(err))
	}
}

func TestAWatchEndsWithItsContext(t *testing.T) {
	defer goleak.VerifyNone(t)
	ctx, cancel := context.WithCancel(t.Context())
	env := chosen(t)
	env.Use(&played{steps: []step{{listErr: away}}})
	w := Watch{See: func(*hearthv1.AgentRun, bool) bool { return false }, Trouble: func(err error) {
		assert.ErrorContains(t, err, "refused")
		cancel()
	}}
	err := w.Run(ctx, env)
	assert.True(t, Stopped(err))
}
