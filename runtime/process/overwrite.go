package process

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
)

// Overwrite replaces the value of a variable by x's in the environment that the agent process was started with, there where the
// process itself and /proc/PID/environ have it. What it starts from then on inherits the x's, unless it had copied its
// environment before. Copies of the value elsewhere in its memory stay. The error says why it could not be done.
func (p *Process) Overwrite(name string) error {
	p.mu.Lock() // so that the number is the agent's for as long as this takes
	defer p.mu.Unlock()
	if p.reaped {
		return fmt.Errorf("overwrite %s: the process has ended", name)
	}
	if err := overwrite(p.pid, name); err != nil {
		return fmt.Errorf("overwrite %s: %w", name, err)
	}
	return nil
}

func overwrite(pid int, name string) error {
	file := func(what string) string { return "/proc/" + strconv.Itoa(pid) + "/" + what }
	start, err := environStart(file("stat"))
	if err != nil {
		return err
	}
	f, err := os.Open(file("environ"))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	environ, err := io.ReadAll(io.LimitReader(f, maxEnviron))
	if err != nil {
		return err
	}
	memory, err := os.OpenFile(file("mem"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer func() { _ = memory.Close() }()
	at := 0
	for pair := range bytes.SplitSeq(environ, []byte{0}) {
		if value, ok := bytes.CutPrefix(pair, []byte(name+"=")); ok {
			if _, err := memory.WriteAt(bytes.Repeat([]byte{'x'}, len(value)), start+int64(at+len(name)+1)); err != nil {
				return err
			}
		}
		at += len(pair) + 1
	}
	return nil
}

// environStart is where the environment begins in the process's memory (proc(5), env_start).
func environStart(stat string) (int64, error) {
	const field = 47            // counted from the state
	b, err := os.ReadFile(stat) //nolint:gosec // of /proc
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) <= field {
		return 0, errStat
	}
	start, err := strconv.ParseInt(string(fields[field]), 10, 64)
	if err != nil || start == 0 {
		return 0, errStat
	}
	return start, nil
}
