package deliver_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/test/harness"
)

// answer notes the status that a handler answers with.
type answer struct {
	http.ResponseWriter
	status *atomic.Int32
}

func (a answer) WriteHeader(status int) {
	a.status.Store(int32(status)) //nolint:gosec // three digits
	a.ResponseWriter.WriteHeader(status)
}

// R32, R42: retention need not wait for the harness. The record goes before the harness could be told that it is written (ttl 0, say);
// the harness is told all the same, by this controller or the next, or it would keep the payload and wait for it at its drain.
func TestAHarnessIsToldThatARecordIsWrittenThoughItIsGoneAlready(t *testing.T) {
	for name, restart := range map[string]bool{"the same controller": false, "the next one": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			var cut atomic.Bool
			var status atomic.Int32
			tried := make(chan struct{}, 100)
			cut.Store(true)
			w.standing("reviewer-1", harness.Options{Wrap: func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					if !strings.HasSuffix(r.URL.Path, "/recorded") {
						next.ServeHTTP(rw, r)
						return
					}
					if cut.Load() {
						select {
						case tried <- struct{}{}:
						default:
						}
						panic(http.ErrAbortHandler)
					}
					next.ServeHTTP(answer{rw, &status}, r)
				})
			}})
			p := w.controller()
			run := w.ended(w.deliver("run", goal))
			<-tried
			if restart {
				p.stop()
			}
			require.NoError(t, w.kube.Delete(t.Context(), run))
			cut.Store(false)
			if restart {
				w.controller()
			}
			require.True(t, w.eventually(func() bool { return status.Load() == http.StatusNoContent }), "recorded was answered %d", status.Load())
		})
	}
}
