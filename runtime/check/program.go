package check

import (
	"bufio"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/hearthdev/hearth/runtime/process"
)

// Program judges whether the agent's command can be executed: that it is there, is for this machine, and has the loader or
// interpreter that it asks for. Its libraries show when it is started.
func Program(command, env []string) Point {
	const name = "agent command"
	if len(command) == 0 {
		return skipped(name, "the agent is somebody else's server")
	}
	path, err := process.Look(command, env)
	if err != nil {
		return failed(name, err.Error(), "put the agent into the image, in PATH, with its execute bits; or give its path after --")
	}
	if err := runnable(path); err != nil {
		return failed(name, fmt.Sprintf("%s: %s", path, err), "the kernel cannot start it: install what it asks for, or a build of it for this image")
	}
	return ok(name, "%s", path)
}

// machines are what ELF calls the architectures that images are built for.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// runnable finds out why exec would fail. What it does not know it leaves to exec.
func runnable(path string) error {
	if f, err := elf.Open(path); err == nil {
		defer func() { _ = f.Close() }()
		if want, known := machines[runtime.GOARCH]; known && f.Machine != want {
			return fmt.Errorf("is a program for %s, and this is %s", f.Machine, want)
		}
		for _, p := range f.Progs {
			if p.Type != elf.PT_INTERP {
				continue
			}
			b := make([]byte, min(p.Filesz, syscall.PathMax))
			if _, err := p.ReadAt(b, 0); err == nil {
				return present("its loader", strings.TrimRight(string(b), "\x00"))
			}
		}
		return nil
	}
	f, err := os.Open(path) //nolint:gosec // the configured command
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	line, _ := bufio.NewReader(f).ReadString('\n')
	script, isScript := strings.CutPrefix(line, "#!")
	if !isScript {
		return errors.New("is neither a program of this system nor a script that names its interpreter (exec format error)")
	}
	words := strings.Fields(script)
	if len(words) == 0 {
		return errors.New("names no interpreter after #!")
	}
	if err := present("its interpreter", words[0]); err != nil {
		return err
	}
	if filepath.Base(words[0]) == "env" && len(words) == 2 {
		if _, err := exec.LookPath(words[1]); err != nil {
			return fmt.Errorf("its interpreter %s is not in PATH", words[1])
		}
	}
	return nil
}

func present(what, path string) error {
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("%s %s is not there", what, path)
	}
	return nil
}
