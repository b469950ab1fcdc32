package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/coder/websocket"
)

// What a third process and a WebSocket cost by themselves is told by a relay: it copies an agent's lines to one client, each as it comes, and
// does nothing else that a harness does.

// asRelay is the argument that makes this program one.
const asRelay = "relay"

// relay starts the agent, says where it listens, and serves one client.
func relay(program string) error {
	cmd := exec.Command(program) //nolint:gosec,noctx // ours; it ends with its stdin
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("relay: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("relay: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("relay: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // at once
	if err != nil {
		return fmt.Errorf("relay: %w", err)
	}
	fmt.Fprintln(os.Stderr, "acp: listening addr="+listener.Addr().String())
	return http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { //nolint:gosec // for one client of ours
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
		if err != nil {
			return
		}
		go copyLines(r.Context(), conn, out)
		for {
			_, message, err := conn.Read(r.Context())
			if err != nil {
				return
			}
			if _, err := io.WriteString(in, strings.TrimSpace(string(message))+"\n"); err != nil {
				return
			}
		}
	}))
}

// startRelay starts one with the scripted agent behind it.
func startRelay(ctx context.Context, built binaries) (h *harness, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, asRelay, built.agent) //nolint:gosec // ours
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.TempDir()}
	log, err := cmd.StderrPipe()
	if err != nil {
		return nil, fmt.Errorf("relay: %w", err)
	}
	h = &harness{}
	if h.process, err = prepare(cmd); err != nil {
		return nil, fmt.Errorf("relay: %w", err)
	}
	if err = h.begin(); err == nil {
		var line string
		line, err = bufio.NewReader(log).ReadString('\n')
		if m := listening.FindStringSubmatch(line); m != nil {
			h.acp = m[2]
			return h, nil
		}
		err = fmt.Errorf("it did not start: %q: %w", line, err)
	}
	h.end()
	return nil, fmt.Errorf("relay: %w", err)
}

func copyLines(ctx context.Context, to *websocket.Conn, from io.Reader) {
	lines := bufio.NewReaderSize(from, 64<<10)
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return
		}
		if err := to.Write(ctx, websocket.MessageText, line[:len(line)-1]); err != nil {
			return
		}
	}
}
