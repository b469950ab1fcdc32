package rig

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// binaries are the programs that a World starts, built once for the test process.
type binaries struct {
	controller, harness, agent, contains string
}

// builds is asked for by the first World; built is its directory, which Main removes.
var (
	builds = sync.OnceValues(build)
	built  string
)

func build() (binaries, error) {
	dir, err := os.MkdirTemp("", "hearth-faults-")
	if err != nil {
		return binaries{}, fmt.Errorf("build: %w", err)
	}
	built = dir
	cmd := exec.CommandContext(context.Background(), "go", "build", "-tags", "faults", "-o", dir+"/", //nolint:gosec // packages of our own
		"github.com/hearthdev/hearth/cmd/controller", "github.com/hearthdev/hearth/cmd/harness",
		"github.com/hearthdev/hearth/test/agent", "github.com/hearthdev/hearth/test/faults/rig/container")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return binaries{}, fmt.Errorf("build: %w: %s", err, out)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	return binaries{controller: at("controller"), harness: at("harness"), agent: at("agent"), contains: at("container")}, nil
}
