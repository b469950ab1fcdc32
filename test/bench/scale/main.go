// Command scale measures what grows, and with what: the controller's memory, goroutines, restarts and latency with standing targets, with
// runs in flight and with records (docs/performance.md, Scale and sharding). What one more of each costs is what tells the first limit.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/hearthdev/hearth/test/apiserver"
	"github.com/hearthdev/hearth/test/bench/figures"
	"github.com/hearthdev/hearth/test/bench/node"
	"github.com/hearthdev/hearth/test/bench/rig"
)

const result = "scale.json"

func main() {
	if node.Asked() {
		os.Exit(node.Main())
	}
	s := sizes{}
	flag.IntVar(&s.few, "few", 500, "`targets` that have the runs in flight, 0 for not to measure any but the records")
	flag.IntVar(&s.many, "many", 2000, "`targets` that there are then")
	flag.IntVar(&s.perAgent, "per-agent", 50, "`targets` of an Agent")
	flag.IntVar(&s.each, "each", 20, "`runs` that each of the few has in flight")
	flag.IntVar(&s.records, "records", 100_000, "finished `runs` in etcd, 0 for not to measure that")
	keep := flag.Bool("keep", false, "keep the figures, and show them in the documentation")
	profile := flag.String("profile", "", "a `directory` for Go's profiles of each restart: of controller, API server and harnesses; costs time, so nothing is kept")
	flag.Parse()
	err := s.check(*keep)
	if *keep && *profile != "" {
		err = errors.Join(err, errors.New("-profile: expected no -keep beside it"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = bench(ctx, s, *keep, *profile, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

// bench measures, each part on a rig of its own, and prints the table.
func bench(ctx context.Context, s sizes, keep bool, profile string, out io.Writer) error {
	root, err := apiserver.Root()
	if err != nil {
		return err
	}
	var grown measured
	var kept kept
	r := figures.Result{Machine: figures.Machine(os.TempDir())}
	for _, part := range []struct {
		name   string
		wanted bool
		do     func(context.Context, *rig.Rig) error
	}{
		{"targets", s.few > 0, func(ctx context.Context, r *rig.Rig) (err error) { grown, err = measure(ctx, r, s, out); return err }},
		{"records", s.records > 0, func(ctx context.Context, r *rig.Rig) (err error) {
			kept, err = fillUp(ctx, r, s.records, out)
			return err
		}},
	} {
		if !part.wanted {
			continue
		}
		if err := on(ctx, &profiles{dir: profile, part: part.name}, part.do); err != nil {
			return err
		}
	}
	if s.few > 0 {
		r.Figures = append(r.Figures, grown.figures()...)
	}
	if s.records > 0 {
		r.Figures = append(r.Figures, kept.figures()...)
	}
	_, _ = fmt.Fprintln(out, "\n"+figures.Table(r))
	if !keep {
		return nil
	}
	return figures.Write(root, result, r)
}

// on does something on a rig, and stops that.
func on(ctx context.Context, p *profiles, do func(context.Context, *rig.Rig) error) (err error) {
	r, err := rig.Start(ctx, rig.Options{Profiles: true, Started: func(r *rig.Rig) { p.started(ctx, r) }})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.group.Wait(), r.Stop()) }()
	return do(ctx, r)
}
