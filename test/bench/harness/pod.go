package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hearthdev/hearth/test/bench/procs"
)

// A harness looks through /proc, and so what else runs on the machine would be in its times. Here, as in a Pod, what is measured is the
// first process of a PID namespace with a /proc of its own.

// inPod is the argument that makes this program the place where another is started.
const inPod = "in-pod"

// Descriptors of that place.
const (
	readyFD = 3 // closed when it is made
	startFD = 4 // closed when the program is to be started
)

// place is this program as the first process of a namespace: it makes what a container runtime would have made, waits, and becomes the
// program.
func place(command []string) error {
	for _, fd := range []int{readyFD, startFD} {
		unix.CloseOnExec(fd)
	}
	// Private, so that the mount stays here. Making all of / private would not work in a chroot, where / is no mount.
	if err := errors.Join(unix.Mount("", "/proc", "", unix.MS_PRIVATE, ""), unix.Mount("proc", "/proc", "proc", 0, "")); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := unix.Close(readyFD); err != nil {
		return fmt.Errorf("ready: %w", err)
	}
	if _, err := unix.Read(startFD, make([]byte, 1)); err != nil {
		return fmt.Errorf("wait for the start: %w", err)
	}
	return syscall.Exec(command[0], command, os.Environ()) //nolint:gosec // ours
}

// process is one that is measured.
type process struct {
	cmd   *exec.Cmd
	start *os.File // closing it starts it
	// begun is when it was started; had is what its place had used by then.
	begun time.Time
	had   time.Duration
}

// prepare makes the place for a program and waits until it is made. The streams and the environment of cmd are the program's.
func prepare(cmd *exec.Cmd) (p *process, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("this program: %w", err)
	}
	ready, itsReady, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("a pipe: %w", err)
	}
	defer func() { _ = ready.Close() }()
	itsStart, start, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("a pipe: %w", err), itsReady.Close())
	}
	cmd.Path, cmd.Args = self, append([]string{self, inPod}, cmd.Args...)
	cmd.ExtraFiles = []*os.File{itsReady, itsStart}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	err = cmd.Start()
	_, _ = itsReady.Close(), itsStart.Close()
	if err != nil {
		_ = start.Close()
		return nil, fmt.Errorf("start in a PID namespace of its own, which takes root: %w", err)
	}
	p = &process{cmd: cmd, start: start}
	if n, err := ready.Read(make([]byte, 1)); n != 0 || err == nil {
		p.end()
		return nil, fmt.Errorf("a place to start in: %w", err)
	}
	return p, nil
}

// begin starts the program.
func (p *process) begin() (err error) {
	if p.had, err = p.used(); err != nil {
		return err
	}
	p.begun = time.Now()
	if err := p.start.Close(); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	return nil
}

// started is how long a start took, and the processor time that the process itself needed for it, in milliseconds.
type started struct{ wall, cpu float64 }

// now is a start that is complete at this moment.
func (p *process) now() (s started, err error) {
	s.wall = since(p.begun)
	used, err := p.used()
	s.cpu = millis(used - p.had)
	return s, err
}

// pid is its number outside its namespace.
func (p *process) pid() int { return p.cmd.Process.Pid }

// used is the processor time that it had.
func (p *process) used() (time.Duration, error) { return procs.CPU(p.pid()) }

// resident is its resident memory in MiB, once it is settled.
func (p *process) resident() (float64, error) {
	time.Sleep(settle)
	bytes, err := procs.Resident(p.pid())
	return float64(bytes) / mib, err
}

func (p *process) end() {
	_ = p.start.Close()
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // it was killed
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func since(begun time.Time) float64 { return millis(time.Since(begun)) }
