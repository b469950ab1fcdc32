package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// produce builds or finds an input and returns its file.
func (b *builder) produce(ctx context.Context, in input) (string, error) {
	if file, ok := b.made[in]; ok {
		return file, nil
	}
	var file string
	var err error
	switch {
	case in.Go != "" && b.prebuilt != "":
		file, err = b.take(in.Go)
	case in.Go != "":
		file, err = b.goBuild(ctx, in.Go)
	case b.foreign():
		err = fmt.Errorf("%s finds what is for this machine (%s), not for %s", in.Run, runtime.GOARCH, b.arch)
	default:
		file, err = b.runScript(ctx, in.Run)
	}
	if err != nil {
		return "", err
	}
	b.made[in] = file
	return file, nil
}

// goBuild compiles a package of the project into the cache; the Go tool leaves an output alone that is
// still right.
func (b *builder) goBuild(ctx context.Context, pkg string) (string, error) {
	out := filepath.Join(b.cache, "bin", path.Base(pkg))
	start := time.Now()
	// #nosec G204 -- constant flags and the project's own packages
	cmd := exec.CommandContext(ctx, "go", "build", "-C", b.root, "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", out, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=", "GOOS=linux")
	cmd.Stderr = b.progress
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("go build %s: %w", pkg, err)
	}
	b.say(start, "built %s", pkg)
	return out, nil
}

// runScript runs a script of the project; the last line it prints is the file.
func (b *builder) runScript(ctx context.Context, script string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(b.root, script)) // #nosec G204 -- the project's own script
	cmd.Dir, cmd.Stderr = b.root, b.progress
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", script, err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	file := lines[len(lines)-1]
	if !filepath.IsAbs(file) {
		return "", fmt.Errorf("%s: expected the absolute path of a file as last line, got %q", script, file)
	}
	return file, nil
}

func (b *builder) say(since time.Time, format string, args ...any) {
	took := time.Since(since)
	if took < quick {
		return
	}
	// A progress line that cannot be written is not worth failing for.
	_, _ = fmt.Fprintf(b.progress, "image: %s (%s)\n", fmt.Sprintf(format, args...), took.Round(100*time.Millisecond))
}
