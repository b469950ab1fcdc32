package client

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/harness"
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
	l.accept(wire.ChallengeAnswer{Boot: "b"})
	require.NoError(t, poll())
}

// P7: most Links only wait for their feed, so each has one goroutine, and none of a transport's two a connection.
func TestALinkThatWaitsHasOneGoroutine(t *testing.T) {
	h := harness.Start(t, harness.Options{})
	verifiedLink(t, testConfig(t, h.Address))
	eventually(t, "one goroutine", func() bool {
		var all bytes.Buffer
		require.NoError(t, pprof.Lookup("goroutine").WriteTo(&all, 2))
		return strings.Count(all.String(), "client.(*Link).page(") == 1 && !strings.Contains(all.String(), "net/http.(*persistConn)")
	})
}

// A harness may close a connection after any answer but that to the challenge. The feed goes on over the next one.
func TestAFeedGoesOnWhereTheConnectionIsClosed(t *testing.T) {
	var closed atomic.Int32
	h := harness.Start(t, harness.Options{Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && r.URL.Path == wire.RunsPath {
				w.Header().Set("Connection", "close")
				closed.Add(1)
			}
			next.ServeHTTP(w, r)
		})
	}})
	told := &changes{}
	cfg := testConfig(t, h.Address)
	cfg.Changed = told.add
	l := verifiedLink(t, cfg)
	require.NoError(t, l.Send(request(l, "run", 1, "goal"), 0))
	eventually(t, "ended, as the feed tells", func() bool { _, state := seen(l, "run", 1); return state == wire.StateFinished })
	assert.GreaterOrEqual(t, closed.Load(), int32(2))
	assert.Equal(t, 1, told.states(), "it was listed, once: that it proved who it is changes nothing before")
}

// SPEC.md, Limits: the feed's answers are held to the same header as any other, so that a harness cannot have its caller keep more.
func TestAFeedWithATooLargeHeaderIsANetworkFault(t *testing.T) {
	h := harness.Start(t, harness.Options{Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && r.URL.Path == wire.RunsPath {
				w.Header().Set("X-More", strings.Repeat("x", 2*maxHeaderBytes))
			}
			next.ServeHTTP(w, r)
		})
	}})
	l := open(t, testConfig(t, h.Address))
	eventually(t, "refused", func() bool { return l.Status().State == StateUnreachable })
	assert.False(t, l.Status().Listed)
}

// SPEC.md, Endpoints: a capacity that is none is not believed, wherever it is told; what is reckoned with it would be too much, or overflow.
func TestACapacityThatIsNoneIsNotBelieved(t *testing.T) {
	keys := harness.Keys(t, "pod-1")
	for name, path := range map[string]string{"by the challenge": wire.ChallengePath, "by the feed": wire.RunsPath} {
		for _, queued := range []string{"-1", "9223372036854775807"} {
			t.Run(name+" "+queued, func(t *testing.T) {
				h := harness.Start(t, harness.Options{Wrap: func(next http.Handler) http.Handler {
					return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if r.URL.Path != path {
							next.ServeHTTP(w, r)
							return
						}
						said := httptest.NewRecorder()
						next.ServeHTTP(said, r)
						body := strings.Replace(said.Body.String(), `"queued":0`, `"queued":`+queued, 1)
						w.Header().Set(wire.HeaderAnswer, keys.Answer(signedRequest(r), said.Code, []byte(body)))
						w.WriteHeader(said.Code)
						_, _ = io.WriteString(w, body)
					})
				}})
				l := open(t, testConfig(t, h.Address))
				eventually(t, "refused", func() bool {
					s := l.Status()
					return s.State == StateUnreachable && strings.Contains(s.Message, "the capacity that")
				})
				assert.True(t, l.Status().Capacity.Valid())
				assert.False(t, l.Status().Listed)
			})
		}
	}
}
