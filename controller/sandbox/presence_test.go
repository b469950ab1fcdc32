package sandbox

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// A question that failed changes nothing, and nothing ends the Presence but its context.
func TestOnlyAnAnswerChangesWhatIsKnown(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, AddToScheme(scheme))
	ticks, asked := make(chan time.Time), 0
	unreachable := errors.New("unreachable")
	answers := []error{unreachable, nil, unreachable, unreachable, nil}
	p := &Presence{
		live:     fake.NewClientBuilder().WithScheme(scheme).Build(),
		after:    func(d time.Duration) <-chan time.Time { assert.Equal(t, LookEvery, d); return ticks },
		log:      slog.New(slog.DiscardHandler),
		newCache: func() (cache.Cache, error) { return nil, errors.New("no cache either") },
	}
	p.served = func(ctx context.Context) (bool, error) {
		_, bounded := ctx.Deadline()
		assert.True(t, bounded)
		err := answers[asked]
		asked++
		return asked == len(answers), err
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- p.Start(ctx) }()
	tick := func() { ticks <- time.Time{} }
	tick() // the first question failed
	tick() // the second was answered
	assert.True(t, p.Absent())
	_, err := p.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "x"})
	assert.ErrorIs(t, err, ErrNoKind, "nobody is asked")
	tick() // the third failed
	assert.True(t, p.Absent())
	cancel() // while it asks for the fourth time, or after
	require.NoError(t, <-over)
	require.True(t, p.NeedLeaderElection())

	later, cancel := context.WithCancel(t.Context())
	asked = len(answers) - 1
	p.look(later, func() {})
	cancel()
	assert.False(t, p.Absent(), "the kind is there, though it cannot be watched yet")
	got, err := p.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "x"})
	require.NoError(t, err)
	assert.Nil(t, got, "it was read from the API server")
}

// What is kept of a Sandbox is what is read.
func TestTrim(t *testing.T) {
	s := &Sandbox{}
	s.Name, s.Spec.PodTemplate.Spec.NodeName = "x", "node1"
	kept, err := trim(s)
	require.NoError(t, err)
	assert.Equal(t, &Sandbox{ObjectMeta: s.ObjectMeta}, kept)
}
