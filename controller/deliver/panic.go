package deliver

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// group does several writes of a pass at once. A panic in one ends the pass, where it is counted, and not the process (fault row 42).
type group struct {
	writes   *errgroup.Group
	panicked atomic.Pointer[string]
}

var errPanicked = errors.New("a write panicked")

func writing(ctx context.Context) (*group, context.Context) {
	writes, ctx := errgroup.WithContext(ctx)
	writes.SetLimit(writers)
	return &group{writes: writes}, ctx
}

func (g *group) do(write func() error) {
	g.writes.Go(func() (err error) {
		defer func() {
			if p := recover(); p != nil { // it may hold a goal: its type is enough
				said := fmt.Sprintf("%T in a write of this pass:\n%s", p, debug.Stack())
				g.panicked.Store(&said)
				err = errPanicked
			}
		}()
		return write()
	})
}

// wait waits for all writes, and panics again if one did: the reconciler's own goroutine is where panics are caught and counted.
func (g *group) wait() error {
	err := g.writes.Wait()
	if p := g.panicked.Load(); p != nil {
		panic(*p)
	}
	return err //nolint:wrapcheck // the caller says what was written
}
