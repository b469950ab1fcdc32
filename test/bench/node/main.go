package node

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// Variables by which Spawn tells a process of the same program what it is to be.
const (
	envKubeconfig = "HEARTH_BENCH_NODE_KUBECONFIG"
	envDir        = "HEARTH_BENCH_NODE_DIR"
)

// Asked tells whether this process was started by Spawn. If so, all it is to do is Main.
func Asked() bool { return os.Getenv(envKubeconfig) != "" }

// Main is the process that Spawn starts. It gives the exit code, once its standard input ended.
func Main() int {
	if err := serve(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		return 1
	}
	return 0
}

// serve tells on out where it is controlled, and serves until in ends.
func serve(ctx context.Context, in io.Reader, out io.Writer) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv(envKubeconfig))
	if err != nil {
		return fmt.Errorf("%s: %w", envKubeconfig, err)
	}
	n, err := newNode(config, os.Getenv(envDir))
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("control: %w", err)
	}
	control := &http.Server{Handler: n.control(), ReadHeaderTimeout: time.Minute}
	defer func() { _ = control.Close() }()
	go func() { _ = control.Serve(listener) }() // ends with Close
	ctx, end := context.WithCancel(ctx)
	defer end()
	go func() {
		defer end()
		_, _ = io.Copy(io.Discard, in) // the parent's end closes it
	}()
	if _, err := fmt.Fprintln(out, listener.Addr()); err != nil {
		return fmt.Errorf("tell where it is controlled: %w", err)
	}
	return n.watch(ctx, config)
}
