package node

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// Options of Spawn.
type Options struct {
	// Kubeconfig is the file with the rights of an administrator.
	Kubeconfig string
	// Dir is where the journals lie, on the disk that is to be measured.
	Dir string
	// Log takes what the process says; os.Stderr unless set.
	Log io.Writer
}

// Node is a process of this program that stands in for kubelet and the harnesses.
type Node struct {
	cmd   *exec.Cmd
	stdin io.Closer
	base  string
}

// Spawn starts one. The program's main must begin with Asked and Main. The process ends with Close, or with this one.
func Spawn(ctx context.Context, o Options) (*Node, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), self)
	cmd.Env = append(os.Environ(), envKubeconfig+"="+o.Kubeconfig, envDir+"="+o.Dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if cmd.Stderr = o.Log; o.Log == nil {
		cmd.Stderr = os.Stderr
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("node: %w", err), stdin.Close(), cmd.Wait())
	}
	return &Node{cmd: cmd, stdin: stdin, base: "http://" + strings.TrimSpace(line)}, nil
}

// PID is the process's number.
func (n *Node) PID() int { return n.cmd.Process.Pid }

// Pprof is where the process's profiles are.
func (n *Node) Pprof() string { return n.base + "/debug/pprof" }

// Close ends the process and all its harnesses.
func (n *Node) Close() error {
	if err := errors.Join(n.stdin.Close(), n.cmd.Wait()); err != nil {
		return fmt.Errorf("node: %w", err)
	}
	return nil
}

// Counts are the sums over all Pods.
func (n *Node) Counts(ctx context.Context) (Counts, error) {
	var c Counts
	return c, n.ask(ctx, http.MethodGet, "/counts", nil, &c)
}

// Times are those of all attempts that anything happened to since the last Reset, in no order.
func (n *Node) Times(ctx context.Context) ([]Times, error) {
	var all []Times
	return all, n.ask(ctx, http.MethodGet, "/times", nil, &all)
}

// Pods are the counts of each Pod, in no order.
func (n *Node) Pods(ctx context.Context) ([]PodCounts, error) {
	var all []PodCounts
	return all, n.ask(ctx, http.MethodGet, "/pods", nil, &all)
}

// Goroutines is how many the process has.
func (n *Node) Goroutines(ctx context.Context) (int, error) {
	var count int
	return count, n.ask(ctx, http.MethodGet, "/goroutines", nil, &count)
}

// Await waits until there are exactly so many Pods, where any are wanted, and at least so many accepted, begun, ended and recorded
// attempts since the last Reset. It fails as soon as the node did, and when ctx ends.
func (n *Node) Await(ctx context.Context, wanted Counts) (Counts, error) {
	var c Counts
	return c, n.ask(ctx, http.MethodPost, "/await", wanted, &c)
}

// Reset forgets times and counts; Pods stay, and so do failures.
func (n *Node) Reset(ctx context.Context) error {
	return n.ask(ctx, http.MethodPost, "/reset", nil, nil)
}

// Release lets goals end that hold: those of these runs, by UID, which may not have come yet, or all that hold now.
func (n *Node) Release(ctx context.Context, runs ...string) error {
	return n.ask(ctx, http.MethodPost, "/release", names{runs}, nil)
}

// HoldLists has no harness say what it has to a Link that asks for that first, until ReleaseLists.
func (n *Node) HoldLists(ctx context.Context) error {
	return n.ask(ctx, http.MethodPost, "/lists/hold", nil, nil)
}

// ReleaseLists ends HoldLists.
func (n *Node) ReleaseLists(ctx context.Context) error {
	return n.ask(ctx, http.MethodPost, "/lists/release", nil, nil)
}

// Restart kills the harnesses of Pods, by UID, and starts them again as other boots with the same journals; all of them without any UID.
// A goal that ran is Interrupted then.
func (n *Node) Restart(ctx context.Context, pods ...string) error {
	return n.ask(ctx, http.MethodPost, "/restart", names{pods}, nil)
}

// maxAnswer bounds an answer of the node: the times of some million attempts.
const maxAnswer = 1 << 30

func (n *Node) ask(ctx context.Context, method, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("node %s: %w", path, err)
	}
	request, err := http.NewRequestWithContext(ctx, method, n.base+path, bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("node %s: %w", path, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("node %s: %w", path, err)
	}
	defer func() { _ = response.Body.Close() }()
	answered, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	switch {
	case err != nil:
		return fmt.Errorf("node %s: %w", path, err)
	case response.StatusCode >= http.StatusBadRequest:
		return fmt.Errorf("node %s: %s: %s", path, response.Status, bytes.TrimSpace(answered))
	case into == nil:
		return nil
	}
	if err := json.Unmarshal(answered, into); err != nil {
		return fmt.Errorf("node %s: %w", path, err)
	}
	return nil
}
