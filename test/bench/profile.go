package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// whole are the profiles that a process keeps from its start.
var whole = []string{"mutex", "block", "allocs", "goroutine"}

// sampled profiles processor time during the first round, where profiles are wanted. What it gives waits for that, and joins its error to
// another.
func (b *bench) sampled(ctx context.Context, id string, round int, how time.Duration) func(error) error {
	if b.profile == "" || round != 0 {
		return func(err error) error { return err }
	}
	done := make(chan error, 1)
	go func() { done <- b.processorTime(ctx, id, how) }()
	return func(err error) error { return errors.Join(err, <-done) }
}

// processorTime profiles all processes at once.
func (b *bench) processorTime(ctx context.Context, id string, how time.Duration) error {
	path := fmt.Sprintf("/profile?seconds=%d", int(how.Seconds()))
	targets := b.profiled()
	errs := make(chan error, len(targets)+1)
	for name, base := range targets {
		go func() { errs <- b.keep(ctx, id+"-"+name+"-cpu", base+path) }()
	}
	go func() {
		text, err := b.api.Do(ctx, http.MethodGet, "/debug/pprof"+path, nil)
		errs <- b.store(id+"-apiserver-cpu", text, err)
	}()
	var all []error
	for range len(targets) + 1 {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

// profiles keeps what the processes have of themselves, after a figure was measured.
func (b *bench) profiles(ctx context.Context, id string) error {
	if b.profile == "" {
		return nil
	}
	var errs []error
	for name, base := range b.profiled() {
		for _, kind := range whole {
			errs = append(errs, b.keep(ctx, id+"-"+name+"-"+kind, base+"/"+kind))
		}
	}
	return errors.Join(errs...)
}

func (b *bench) profiled() map[string]string {
	return map[string]string{controller: "http://" + b.rig.Controller().Pprof + "/debug/pprof", nodes: b.rig.Node.Pprof()}
}

func (b *bench) keep(ctx context.Context, name, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("profile %s: %s", url, response.Status)
	}
	text, err := io.ReadAll(response.Body)
	return b.store(name, text, err)
}

// store writes what was read, if it was: a file that is empty or cut looks like a profile.
func (b *bench) store(name string, text []byte, err error) error {
	if err != nil {
		return fmt.Errorf("read a profile: %w", err)
	}
	return os.WriteFile(filepath.Join(b.profile, name+".pprof"), text, 0o600)
}
