package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	root     = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"
	steerKey = "steer-key-0123456789-0123456789-0123456789"
	podUID   = "pod-1"
	settle   = time.Second // until memory is what it stays
	patience = time.Minute
)

// binaries are built as images have them; whole is the harness with its symbols.
type binaries struct{ harness, whole, agent string }

func build(ctx context.Context, dir string) (binaries, error) {
	b := binaries{harness: filepath.Join(dir, "harness"), whole: filepath.Join(dir, "harness-whole"), agent: filepath.Join(dir, "agent")}
	for _, args := range [][]string{
		{"-ldflags", "-s -w", "-o", b.harness, "./cmd/harness"}, {"-o", b.whole, "./cmd/harness"}, {"-ldflags", "-s -w", "-o", b.agent, "./test/agent"},
	} {
		cmd := exec.CommandContext(ctx, "go", append([]string{"build"}, args...)...) //nolint:gosec // our own arguments
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return b, fmt.Errorf("build: %w: %s", err, out)
		}
	}
	return b, nil
}

// process is one that is measured.
type process struct{ cmd *exec.Cmd }

func (p *process) end() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // it was killed
}

// resident is its resident memory in MiB, once it is settled.
func (p *process) resident() (float64, error) {
	time.Sleep(settle)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("memory: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, "VmRSS:"); found {
			kib, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
			return kib / 1024, err
		}
	}
	return 0, errors.New("memory: the kernel does not say")
}

// cpu is the processor time that it had.
func (p *process) cpu() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("processor time: %w", err)
	}
	const user, system, tick = 11, 12, 10 * time.Millisecond // of the fields after the name; 100 ticks a second
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	var ticks int64
	for _, i := range []int{user, system} {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("processor time: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * tick, nil
}

// agent is the scripted agent without a harness.
type agent struct {
	process
	in      io.WriteCloser
	out     *bufio.Reader
	session string
}

// startAgent starts it and tells how long that took until it has answered initialize.
func startAgent(ctx context.Context, program string) (a *agent, millis float64, err error) {
	a = &agent{process: process{exec.CommandContext(ctx, program)}} //nolint:gosec // ours
	if a.in, err = a.cmd.StdinPipe(); err != nil {
		return nil, 0, fmt.Errorf("agent: %w", err)
	}
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		return nil, 0, fmt.Errorf("agent: %w", err)
	}
	a.out = bufio.NewReaderSize(out, 64<<10)
	begun := time.Now()
	if err := a.cmd.Start(); err != nil {
		return nil, 0, fmt.Errorf("agent: %w", err)
	}
	if _, err := a.ask(initialize, 1); err != nil {
		a.end()
		return nil, 0, err
	}
	millis = since(begun)
	if a.session, err = a.ask(newSession, 1); err != nil {
		a.end()
		return nil, 0, err
	}
	a.session = sessionOf(a.session)
	return a, millis, nil
}

// ask sends a line and reads as many; it returns the last one.
func (a *agent) ask(line string, lines int) (string, error) {
	if _, err := io.WriteString(a.in, line+"\n"); err != nil {
		return "", fmt.Errorf("agent: %w", err)
	}
	var last string
	for range lines {
		text, err := a.out.ReadString('\n')
		if err != nil {
			return "", fmt.Errorf("agent: %w", err)
		}
		last = text
	}
	return last, nil
}

// harness is one with the scripted agent behind it.
type harness struct {
	process
	bound         float64 // ms from its start until port 4000 was open
	acp, delivery string  // addresses
	hostname      string
}

var listening = regexp.MustCompile(`(acp|delivery): listening"? addr=(\S+)`)

func startHarness(ctx context.Context, built binaries, dir string) (*harness, error) {
	hostname, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("hostname: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("a directory: %w", err)
	}
	h := &harness{process: process{exec.CommandContext(ctx, built.harness, "serve", "--", built.agent)}, hostname: hostname} //nolint:gosec // ours
	h.cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "POD_NAMESPACE=team", "POD_NAME=" + hostname, "POD_UID=" + podUID, "HEARTH_DELIVERY_TOKEN=" + root,
		"HEARTH_ACP_STEER_KEY=" + steerKey, "HEARTH_ACP_LISTEN=127.0.0.1:0", "HEARTH_METRICS_LISTEN=127.0.0.1:0", "HEARTH_DELIVERY_LISTEN=127.0.0.1:0", "HEARTH_DATA_DIR=" + dir,
	}
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, err := h.cmd.StderrPipe()
	if err != nil {
		return nil, fmt.Errorf("harness: %w", err)
	}
	h.cmd.Stdout = nil
	begun := time.Now()
	if err := h.cmd.Start(); err != nil {
		return nil, fmt.Errorf("harness: %w", err)
	}
	lines := bufio.NewScanner(log)
	var said strings.Builder
	for h.acp == "" && lines.Scan() {
		said.WriteString(lines.Text() + "\n")
		if m := listening.FindStringSubmatch(lines.Text()); m != nil && m[1] == "acp" {
			h.acp, h.bound = m[2], since(begun)
		} else if m != nil {
			h.delivery = m[2]
		}
	}
	if h.acp == "" || h.delivery == "" {
		h.end()
		return nil, fmt.Errorf("harness: it did not start: %s", said.String())
	}
	go func() { _, _ = io.Copy(io.Discard, log) }() // ends with the process
	return h, nil
}

func since(begun time.Time) float64 { return float64(time.Since(begun).Microseconds()) / 1000 }
