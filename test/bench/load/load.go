package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/hearthdev/hearth/test/bench/bare"
)

// loader carries a plan out.
type loader struct {
	plan Plan
	api  *bare.Client
	path string
	now  func() time.Time

	mu    sync.Mutex
	runs  []Run
	named map[string]int // their places
	ended int
}

func newLoader(p Plan, api *bare.Client, now func() time.Time) *loader {
	l := &loader{plan: p, api: api, path: fmt.Sprintf("/apis/%s/namespaces/%s/agentruns", p.APIVersion, p.Namespace), now: now,
		runs: make([]Run, p.Runs), named: map[string]int{}}
	for i := range l.runs {
		l.runs[i].Name = fmt.Sprintf("%s-%06d-x", p.Name, i) // no name of a standing run
		l.named[l.runs[i].Name] = i
	}
	return l
}

// all makes the runs and waits for their ends.
func (l *loader) all(ctx context.Context) ([]Run, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, l.plan.Limit, fmt.Errorf("the load was to take %v at most", l.plan.Limit))
	defer cancel()
	version, err := l.api.Version(ctx, l.path)
	if err != nil {
		return nil, err
	}
	watched := make(chan error, 1)
	if l.plan.Leave {
		watched <- nil
	} else {
		go func() {
			err := l.api.Watch(ctx, l.path, version, "fieldSelector="+url.QueryEscape("spec.agentRef.name="+l.plan.Agent), l.see)
			if err != nil {
				cancel()
			}
			watched <- err
		}()
	}
	err = l.make(ctx)
	if err != nil {
		cancel()
	}
	if err := errors.Join(err, <-watched); err != nil {
		return nil, errors.Join(fmt.Errorf("%w (%d of %d runs have ended)", err, l.ended, l.plan.Runs), context.Cause(ctx))
	}
	return l.runs, nil
}

// make makes the runs, by workers or at times.
func (l *loader) make(ctx context.Context) error {
	errs := make(chan error, l.plan.Runs)
	var working sync.WaitGroup
	if l.plan.Rate > 0 {
		every := time.Duration(float64(time.Second) / l.plan.Rate)
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for i := range l.runs {
			working.Go(func() { errs <- l.one(ctx, i) })
			select {
			case <-ticker.C:
			case <-ctx.Done():
			}
		}
	} else {
		next := make(chan int, l.plan.Runs)
		for i := range l.runs {
			next <- i
		}
		close(next)
		for range max(1, l.plan.Workers) {
			working.Go(func() {
				for i := range next {
					errs <- l.one(ctx, i)
				}
			})
		}
	}
	working.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// one makes one run.
func (l *loader) one(ctx context.Context, i int) error {
	name := l.runs[i].Name // never changes
	sent := l.now()
	answer, err := l.api.Do(ctx, http.MethodPost, l.path,
		fmt.Appendf(nil, `{"apiVersion":%q,"kind":"AgentRun","metadata":{"name":%q},"spec":%s}`, l.plan.APIVersion, name, l.plan.Spec))
	if err != nil {
		return err
	}
	created := l.now()
	stored, err := identity(answer)
	if err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	l.mu.Lock()
	r := &l.runs[i]
	r.UID, r.Sent, r.Created = stored.UID, sent, created
	l.mu.Unlock()
	for _, status := range l.plan.Statuses {
		answer, err := l.api.Do(ctx, http.MethodPut, l.path+"/"+name+"/status", fmt.Appendf(nil,
			`{"apiVersion":%q,"kind":"AgentRun","metadata":{"name":%q,"resourceVersion":%q},"status":%s}`, l.plan.APIVersion, name, stored.ResourceVersion, status))
		if err != nil {
			return err
		}
		if stored, err = identity(answer); err != nil {
			return fmt.Errorf("write status of %s: %w", name, err)
		}
	}
	if len(l.plan.Statuses) > 0 {
		written := l.now()
		l.mu.Lock()
		r.Written = written
		l.mu.Unlock()
	}
	return nil
}

type stored struct{ Name, UID, ResourceVersion string }

func identity(answer []byte) (stored, error) {
	var o struct{ Metadata stored }
	err := json.Unmarshal(answer, &o)
	return o.Metadata, err
}

// see is told of each event of the watch.
func (l *loader) see(line []byte) (bare.Seen, error) {
	at := l.now()
	var event struct {
		Type   string
		Object struct {
			Metadata stored
			Status   struct {
				Phase, Reason, CompletionTime string
				Delivery                      struct{ Attempt int64 }
			}
		}
	}
	if err := json.Unmarshal(line, &event); err != nil {
		return bare.Seen{}, err
	}
	if event.Type != "ADDED" && event.Type != "MODIFIED" {
		return bare.Seen{}, fmt.Errorf("expected runs to be added and changed, got %s: %.512s", event.Type, line)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	i, ours := l.named[event.Object.Metadata.Name]
	if s := event.Object.Status; ours && s.CompletionTime != "" {
		r := &l.runs[i]
		if r.Records++; r.Records == 1 {
			r.Ended, r.Phase, r.Reason, r.Attempt = at, s.Phase, s.Reason, s.Delivery.Attempt
			l.ended++
		}
	}
	return bare.Seen{Version: event.Object.Metadata.ResourceVersion, Enough: l.ended == l.plan.Runs}, nil
}
