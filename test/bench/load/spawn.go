package load

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/hearthdev/hearth/test/bench/bare"
)

// envLoad tells a process of the same program what it is to be.
const envLoad = "HEARTH_BENCH_LOAD"

// Asked tells whether this process was started by Spawn. If so, all it is to do is Main.
func Asked() bool { return os.Getenv(envLoad) != "" }

// Main is the process that Spawn starts. It gives the exit code.
func Main() int {
	if err := serve(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		return 1
	}
	return 0
}

// serve reads a plan, carries it out and tells what became of it.
func serve(ctx context.Context, in io.Reader, out io.Writer) error {
	var p Plan
	if err := json.NewDecoder(in).Decode(&p); err != nil {
		return fmt.Errorf("read the plan: %w", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", p.Kubeconfig)
	if err != nil {
		return fmt.Errorf("find the API server: %w", err)
	}
	api, err := bare.New(config)
	if err != nil {
		return err
	}
	runs, err := newLoader(p, api, time.Now).all(ctx)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(Done{Runs: runs})
}

// Spawn carries a plan out in a process of this program, and checks what became of it.
func Spawn(ctx context.Context, p Plan) (Done, error) {
	d, err := spawn(ctx, p)
	if err == nil {
		err = p.Check(d)
	}
	if err != nil {
		return d, fmt.Errorf("load %s: %w", p.Name, err)
	}
	return d, nil
}

func spawn(ctx context.Context, p Plan) (Done, error) {
	var d Done
	self, err := os.Executable()
	if err != nil {
		return d, err
	}
	plan, err := json.Marshal(p)
	if err != nil {
		return d, err
	}
	var out, said bytes.Buffer
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), envLoad+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(plan), &out, &said
	if err := cmd.Run(); err != nil {
		return d, fmt.Errorf("%w: %s", err, bytes.TrimSpace(said.Bytes()))
	}
	if err := json.Unmarshal(out.Bytes(), &d); err != nil {
		return d, fmt.Errorf("what it did: %w", err)
	}
	d.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return d, nil
}
