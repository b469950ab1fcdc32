// Command release makes everything a release consists of, the same bytes from the same commit wherever and whenever it runs
// (docs/releasing.md).
//
//	hack/release/release -version v0.2.0 [-registry REGISTRY] [-out DIR]
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	var root, version, registry, to string
	set := flag.NewFlagSet("release", flag.ContinueOnError)
	set.SetOutput(progress)
	set.StringVar(&root, "root", ".", "the project's `directory`")
	set.StringVar(&version, "version", "", "the `version`, as in v0.2.0")
	set.StringVar(&registry, "registry", "localhost", "where the images will be: install manifest and chart name it")
	set.StringVar(&to, "out", "", "the `directory` that gets the release (default dist/release/VERSION)")
	if err := set.Parse(args); err != nil {
		return fmt.Errorf("flags: %w", err)
	}
	s, err := sourceOf(ctx, root, version, registry, os.Getenv)
	if err != nil {
		return err
	}
	if to == "" {
		to = filepath.Join(s.root, "dist", "release", version)
	}
	if to, err = filepath.Abs(to); err != nil {
		return err
	}
	if err := assemble(ctx, s, to, progress); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, to)
	return err
}

// assemble makes the release in a directory beside its own, which it takes when it is complete.
func assemble(ctx context.Context, s source, to string, progress io.Writer) error {
	if err := replaceable(to); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil { //nolint:gosec // what is released is public
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(to), ".release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	w := workshop{source: s, bin: filepath.Join(work, "bin"), out: filepath.Join(work, "out"), layouts: filepath.Join(work, "layouts"), progress: progress, told: map[string][]notice{}}
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{{"programs", w.programs}, {"images", w.images}, {"install manifest and chart", w.install}, {"checksums", w.sums}} {
		if err := w.timed(step.name, func() error { return step.do(ctx) }); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	return os.Rename(w.out, to)
}

// replaceable refuses to remove what is no release.
func replaceable(dir string) error {
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, sumsFile)); err != nil {
		return fmt.Errorf("%s: expected a release of before or nothing, it has no %s", dir, sumsFile)
	}
	return nil
}
