package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hearthdev/hearth/test/bench/bare"
	"github.com/hearthdev/hearth/test/bench/rig"
)

// profileFor is how long each start is profiled.
const profileFor = 15 * time.Second

// profiles keep where processor time goes while a controller starts: of it, of the API server and of the harnesses. Without a directory
// there are none.
type profiles struct {
	dir   string
	part  string // of the benchmark, in the names of the files
	count int
	group errgroup.Group
}

// started profiles a controller's process from its beginning; the first of a rig finds nothing to do and is left out.
func (p *profiles) started(ctx context.Context, r *rig.Rig) {
	p.count++
	if p.dir == "" || p.count == 1 {
		return
	}
	path := fmt.Sprintf("/profile?seconds=%d", int(profileFor.Seconds()))
	for name, base := range map[string]string{"controller": "http://" + r.Controller().Pprof + "/debug/pprof", "node": r.Node.Pprof()} {
		file := p.file(name)
		p.group.Go(func() error {
			text, err := answered(ctx, base+path)
			return profiled(file, text, err)
		})
	}
	file := p.file("apiserver")
	p.group.Go(func() error {
		api, err := bare.New(r.Config)
		if err != nil {
			return err
		}
		text, err := api.Do(ctx, http.MethodGet, "/debug/pprof"+path, nil)
		return profiled(file, text, err)
	})
}

// profiled writes what was read, if it was: a file that is empty looks like a profile.
func profiled(file string, text []byte, err error) error {
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

func (p *profiles) file(process string) string {
	return filepath.Join(p.dir, fmt.Sprintf("%s-start%d-%s-cpu.pprof", p.part, p.count, process))
}

// answered reads from a process that may not listen yet.
func answered(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*profileFor)
	defer cancel()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		text, err := fetch(ctx, url)
		if err == nil {
			return text, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("profile: %w", err)
		case <-ticker.C:
		}
	}
}
