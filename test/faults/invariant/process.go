package invariant

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/hearthdev/hearth/test/bench/procs"
)

// Sample is what a process holds at a moment. A figure that nobody measured is -1.
type Sample struct {
	Goroutines int
	Files      int
	Bytes      int64 // of memory: resident, or of the heap, the same in both samples
}

// Process is a process before and after a case. Allow is what it may have more of afterwards: pools, caches, connections for reuse.
type Process struct {
	Name          string
	Before, After Sample
	Allow         Sample
}

// Usual is what a process of ours may hold more of after a case.
func Usual() Sample { return Sample{Goroutines: 32, Files: 16, Bytes: 64 << 20} }

// Flat is I6.
func Flat(p Process) []Violation {
	var found []Violation
	grew := func(what string, before, after, allowed int64) {
		if before >= 0 && after >= 0 && after > before+allowed {
			found = append(found, Violation{Invariant: I6, Text: fmt.Sprintf("%s: %s grew from %d to %d, %d more are allowed", p.Name, what, before, after, allowed)})
		}
	}
	grew("goroutines", int64(p.Before.Goroutines), int64(p.After.Goroutines), int64(p.Allow.Goroutines))
	grew("open files", int64(p.Before.Files), int64(p.After.Files), int64(p.Allow.Files))
	grew("memory", p.Before.Bytes, p.After.Bytes, p.Allow.Bytes)
	return found
}

// OfProcess samples any process of this machine: open files and resident memory.
func OfProcess(pid int) (Sample, error) {
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return Sample{}, fmt.Errorf("open files of process %d: %w", pid, err)
	}
	resident, err := procs.Resident(pid)
	if err != nil {
		return Sample{}, err
	}
	return Sample{Goroutines: -1, Files: len(files), Bytes: resident}, nil
}

// OfMetrics reads a sample from what a Go process says at /metrics. The bytes are those of the heap in use.
func OfMetrics(r io.Reader) (Sample, error) {
	s := Sample{Goroutines: -1, Files: -1, Bytes: -1}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue // a comment, or a series with a time
		}
		switch name {
		case "go_goroutines":
			s.Goroutines = int(n)
		case "process_open_fds":
			s.Files = int(n)
		case "go_memstats_heap_inuse_bytes":
			s.Bytes = int64(n)
		}
	}
	if err := lines.Err(); err != nil {
		return s, fmt.Errorf("read metrics: %w", err)
	}
	return s, nil
}
