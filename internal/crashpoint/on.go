//go:build faults

package crashpoint

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
)

// Enabled tells whether points are anything in this build.
const Enabled = true

// Socket is the variable that names the Unix socket where a process asks at every point; without it points do nothing.
const Socket = "CRASHPOINT_SOCKET"

// Kill is the answer at which the process ends at once, as by kill -9. Any other answer but Panic lets it go on; so does a socket that is gone.
const Kill = "kill"

// Panic is the answer at which the code that reached the point panics.
const Panic = "panic"

// Reach asks whether to go on: it sends the point's name as a line and waits for a line.
func Reach(p Point) {
	at := os.Getenv(Socket)
	if at == "" {
		return
	}
	conn, err := net.Dial("unix", at) //nolint:noctx,gosec // a test decides where and how long
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintln(conn, p); err != nil {
		return
	}
	switch answer, _ := bufio.NewReader(conn).ReadString('\n'); strings.TrimSpace(answer) {
	case Kill:
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // not one step further
	case Panic:
		panic("crash point " + string(p))
	}
}
