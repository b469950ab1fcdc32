package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
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

// agent is the scripted agent without a harness.
type agent struct {
	*process
	in      io.WriteCloser
	out     *bufio.Reader
	session string
	started started // until it had answered initialize
}

func startAgent(ctx context.Context, program string) (a *agent, err error) {
	a = &agent{}
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.TempDir()} // as much as a harness gives it
	if a.in, err = cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	a.out = bufio.NewReaderSize(out, 64<<10)
	if a.process, err = prepare(cmd); err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	if err := a.greet(); err != nil {
		a.end()
		return nil, fmt.Errorf("agent: %w", err)
	}
	return a, nil
}

// greet starts it and opens a session.
func (a *agent) greet() (err error) {
	if err := a.begin(); err != nil {
		return err
	}
	if _, err := a.ask(initialize, 1); err != nil {
		return err
	}
	if a.started, err = a.now(); err != nil {
		return err
	}
	opened, err := a.ask(newSession, 1)
	a.session = sessionOf(opened)
	return err
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
	*process
	started       started // until port 4000 was open
	acp, delivery string  // addresses
	hostname      string
}

var listening = regexp.MustCompile(`(acp|delivery): listening"? addr=(\S+)`)

func startHarness(ctx context.Context, built binaries, dir string) (h *harness, err error) {
	hostname, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("hostname: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("a directory: %w", err)
	}
	h = &harness{hostname: hostname}
	cmd := exec.CommandContext(ctx, built.harness, "serve", "--", built.agent) //nolint:gosec // ours
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "POD_NAMESPACE=team", "POD_NAME=" + hostname, "POD_UID=" + podUID, "HEARTH_DELIVERY_TOKEN=" + root,
		"HEARTH_ACP_STEER_KEY=" + steerKey, "HEARTH_ACP_LISTEN=127.0.0.1:0", "HEARTH_METRICS_LISTEN=127.0.0.1:0", "HEARTH_DELIVERY_LISTEN=127.0.0.1:0", "HEARTH_DATA_DIR=" + dir,
	}
	log, err := cmd.StderrPipe()
	if err != nil {
		return nil, fmt.Errorf("harness: %w", err)
	}
	if h.process, err = prepare(cmd); err != nil {
		return nil, fmt.Errorf("harness: %w", err)
	}
	if err := h.boot(log); err != nil {
		h.end()
		return nil, fmt.Errorf("harness: %w", err)
	}
	go func() { _, _ = io.Copy(io.Discard, log) }() // ends with the process
	return h, nil
}

// boot starts it and reads its log until port 4000 is open, which comes last.
func (h *harness) boot(log io.Reader) error {
	if err := h.begin(); err != nil {
		return err
	}
	lines := bufio.NewScanner(log)
	var said strings.Builder
	for h.acp == "" && lines.Scan() {
		said.WriteString(lines.Text() + "\n")
		switch m := listening.FindStringSubmatch(lines.Text()); {
		case m == nil:
		case m[1] == "delivery":
			h.delivery = m[2]
		default:
			h.acp = m[2]
		}
	}
	if h.acp == "" || h.delivery == "" {
		return fmt.Errorf("it did not start: %s", said.String())
	}
	var err error
	h.started, err = h.now()
	return err
}
