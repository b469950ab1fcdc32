// Command container gives a program what a container of a Pod gives it, as far as the harness looks: a hostname of its own, and its
// own processes, which all end with it. The rig starts it in new UTS, PID and mount namespaces:
//
//	container HOSTNAME PROGRAM [ARGUMENT...]
package main

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func main() {
	if err := enter(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "container:", err)
		os.Exit(125) // as docker says it: the container could not be made
	}
}

func enter(args []string) error {
	if len(args) < 3 {
		return fmt.Errorf("expected a hostname and a program, got %d arguments", len(args)-1)
	}
	if err := unix.Sethostname([]byte(args[1])); err != nil {
		return fmt.Errorf("set the hostname: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts to ourselves: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return syscall.Exec(args[2], args[2:], os.Environ()) //nolint:gosec // what the rig was told to start
}
