package client

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// A command may find the target silent just when no poll is under way. The next poll must not be held for its whole time then:
// it ends at once, and so does every one until the target was challenged anew.
func TestASuspicionBetweenTwoPollsEndsTheNextOne(t *testing.T) {
	l, err := New(testConfig(t, "127.0.0.1:1"))
	require.NoError(t, err)
	poll := func() error {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		l.polling(cancel)
		return ctx.Err()
	}
	require.NoError(t, poll())
	l.suspect() // the poll that it would end is over
	require.ErrorIs(t, poll(), context.Canceled)
	assert.True(t, l.wasSuspected(), "the new challenge needs no backoff")
	l.accept(nil, wire.ChallengeAnswer{Boot: "b"})
	require.NoError(t, poll())
}
