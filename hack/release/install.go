package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// sumsFile is what `sha256sum -c` reads.
const sumsFile = "SHA256SUMS"

// install writes the manifest and the chart, with the controller's image by name and digest.
func (w workshop) install(ctx context.Context) error {
	_, digest, err := w.index("hearth-controller")
	if err != nil {
		return err
	}
	to := filepath.Join(filepath.Dir(w.out), "install")
	chartVersion := strings.TrimPrefix(w.version, "v")
	cmd := exec.CommandContext(ctx, "go", "run", "-C", w.root, "./hack/install", "release", "-root", w.root, "-out", to, //nolint:gosec // the project's own tool
		"-image-controller", fmt.Sprintf("%s/hearth-controller:%s@%s", w.registry, w.version, digest), "-version", chartVersion)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-buildvcs=false -trimpath")
	cmd.Stdout, cmd.Stderr = w.progress, w.progress
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("hack/install: %w", err)
	}
	if err := os.Rename(filepath.Join(to, "install.yaml"), filepath.Join(w.out, "install.yaml")); err != nil {
		return err
	}
	chart, err := under(filepath.Join(to, "hearth"), "hearth/")
	if err != nil {
		return err
	}
	return writeGzip(filepath.Join(w.out, "hearth-chart-"+chartVersion+".tgz"), chart, w.created)
}

// sums writes the SHA-256 of every file of the release.
func (w workshop) sums(context.Context) error {
	files, err := under(w.out, "")
	if err != nil {
		return err
	}
	var lines strings.Builder
	for _, f := range files { // in the order of their names
		sum, err := sumOf(f.source)
		if err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%s  %s\n", sum, f.name)
	}
	return writeFile(filepath.Join(w.out, sumsFile), func(out io.Writer) error { _, err := io.WriteString(out, lines.String()); return err })
}
