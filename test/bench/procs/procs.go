// Package procs reads what the system counts of a process that a benchmark measures.
package procs

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// CPU is the processor time, user and system, that a process of this user has used, to the nanosecond (clock_getcpuclockid(3)).
func CPU(pid int) (time.Duration, error) {
	const process, clock = 3, 2 // a clock's number is the inverted pid, and in the low bits which of its clocks: CPUCLOCK_SCHED
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<process|clock), &t); err != nil { //nolint:gosec // pids are below 2^22
		return 0, fmt.Errorf("processor time of %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// Resident is how many bytes of memory a process has in use.
func Resident(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, fmt.Errorf("resident memory: %w", err)
	}
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0, fmt.Errorf("resident memory of %d: expected two numbers, got %q", pid, text)
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("resident memory of %d: %w", pid, err)
	}
	return pages * int64(os.Getpagesize()), nil
}
