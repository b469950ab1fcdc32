package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// program is one that a release has, for each of its platforms.
type program struct {
	name      string // of its file
	archive   string // what its archives are called
	pkg       string
	platforms []platform
}

type platform struct{ system, arch string }

func (p platform) String() string { return p.system + "-" + p.arch }

var linux = []platform{{"linux", "amd64"}, {"linux", "arm64"}}

// released are the programs of a release.
var released = []program{
	{"controller", "hearth-controller", "./cmd/controller", linux},
	{"harness", "hearth-harness", "./cmd/harness", linux},
	{"hearth", "hearth", "./cmd/hearth", append(linux[:2:2], platform{"darwin", "arm64"})},
	{"hearth-conformance", "hearth-conformance", "./test/conformance/hearth-conformance", linux},
}

// linked is the package whose variables the linker sets.
const linked = module + "/internal/version"

// workshop is where a release is made.
type workshop struct {
	source
	bin, layouts, out string
	progress          io.Writer
	told              map[string][]notice // what notices found before
}

// programs builds each for each platform, and writes its archive and its bill of materials.
func (w workshop) programs(ctx context.Context) error {
	for _, p := range released {
		for _, on := range p.platforms {
			if err := w.timed(p.name+" for "+on.String(), func() error { return w.program(ctx, p, on) }); err != nil {
				return fmt.Errorf("%s for %s: %w", p.name, on, err)
			}
		}
	}
	return nil
}

func (w workshop) program(ctx context.Context, p program, on platform) error {
	binary := filepath.Join(w.bin, on.String(), p.name)
	if err := w.build(ctx, p.pkg, on, binary); err != nil {
		return err
	}
	notices, err := w.notices(ctx, p.pkg, on)
	if err != nil {
		return err
	}
	texts := licenceText(notices)
	if err := writeFile(binary+".licences", func(f io.Writer) error { _, err := io.WriteString(f, texts); return err }); err != nil {
		return err
	}
	bill, err := billOf(w.source, p, binary, notices)
	if err != nil {
		return err
	}
	base := fmt.Sprintf("%s_%s_%s_%s", p.archive, w.version, on.system, on.arch)
	if err := writeBill(filepath.Join(w.out, base+".cdx.json"), bill); err != nil {
		return err
	}
	return writeGzip(filepath.Join(w.out, base+".tar.gz"), []file{
		{name: base + "/" + p.name, mode: 0o755, source: binary},
		{name: base + "/LICENSE", mode: 0o644, source: filepath.Join(w.root, "LICENSE")},
		{name: base + "/LICENCES-OF-OTHERS", mode: 0o644, text: texts},
	}, w.created)
}

// build compiles a program. Nothing of this machine goes in but the Go version, which the program tells.
func (w workshop) build(ctx context.Context, pkg string, on platform, to string) error {
	set := fmt.Sprintf("-s -w -X %s.release=%s -X %s.revision=%s", linked, w.version, linked, w.revision)
	cmd := exec.CommandContext(ctx, "go", "build", "-C", w.root, "-trimpath", "-buildvcs=false", "-ldflags", set, "-o", to, pkg) //nolint:gosec // the project's own packages
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=", "GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0",
		"GOOS="+on.system, "GOARCH="+on.arch)
	cmd.Stderr = w.progress
	return cmd.Run()
}

// notice is what has to go with a program that links a module, as hack/licences tells it.
type notice struct {
	Path, Version   string
	Licences, Texts []string
}

func (w workshop) notices(ctx context.Context, pkg string, on platform) ([]notice, error) {
	key := pkg + " " + on.String()
	if found, ok := w.told[key]; ok {
		return found, nil
	}
	cmd := exec.CommandContext(ctx, "go", "run", "-C", filepath.Join(w.root, "hack", "licences"), ".", //nolint:gosec // the project's own tool
		"-json", "-platform", on.system+"/"+on.arch, "../..="+pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	cmd.Stderr = w.progress
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("hack/licences: %w", err)
	}
	var found []notice
	if err := json.Unmarshal(out, &found); err != nil {
		return nil, fmt.Errorf("hack/licences: %w", err)
	}
	w.told[key] = found
	return found, nil
}

// licenceText is what others ask to be told wherever their code goes.
func licenceText(notices []notice) string {
	var text strings.Builder
	text.WriteString("This program holds the following modules, under the licences that follow each.\n")
	for _, n := range notices {
		name := strings.TrimSuffix(n.Path+" "+n.Version, " ")
		if n.Path == "std" {
			name = "the Go standard library"
		}
		fmt.Fprintf(&text, "\n%s\n%s (%s)\n", strings.Repeat("=", 80), name, strings.Join(n.Licences, ", "))
		for _, t := range n.Texts {
			fmt.Fprintf(&text, "\n%s\n", strings.TrimSpace(strings.ReplaceAll(t, "\r\n", "\n")))
		}
	}
	return text.String()
}

// sumOf is the SHA-256 of a file.
func sumOf(name string) (string, error) {
	f, err := os.Open(name) //nolint:gosec // a file of the release
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return hex.EncodeToString(sum.Sum(nil)), errors.Join(err, f.Close())
}

func (w workshop) timed(what string, do func() error) error {
	start := time.Now()
	err := do()
	// A progress line that cannot be written is not worth failing for.
	_, _ = fmt.Fprintf(w.progress, "release: %s (%s)\n", what, time.Since(start).Round(100*time.Millisecond))
	return err
}
