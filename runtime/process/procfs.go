package process

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// maxEnviron bounds what is read of another process's environment.
const maxEnviron = 1 << 20

// zombie is the state letter of a process that has exited and was not waited for.
const zombie = 'Z'

var procfs = os.DirFS("/proc")

// ID names one process for ever: its number may be used again, its number and start time together are not.
type ID struct {
	PID   int
	Start uint64 // clock ticks since the machine started
}

// entry is one line of the process table.
type entry struct {
	id              ID
	ppid, pgid, sid int
	state           byte
}

// table reads the process table. Processes that end meanwhile are left out.
func table() (map[int]entry, error) {
	dirs, err := fs.ReadDir(procfs, ".")
	if err != nil {
		return nil, err
	}
	t := make(map[int]entry, len(dirs))
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		if e, err := lookUp(pid); err == nil {
			t[pid] = e
		}
	}
	return t, nil
}

func lookUp(pid int) (entry, error) {
	stat, err := fs.ReadFile(procfs, strconv.Itoa(pid)+"/stat")
	if err != nil {
		return entry{}, err
	}
	return parseStat(pid, string(stat))
}

var errStat = errors.New("unreadable stat line")

// parseStat reads /proc/PID/stat (proc(5)). The command's name may hold anything, so the fields are counted from its last ')'.
func parseStat(pid int, stat string) (entry, error) {
	const ppid, pgid, sid, start = 1, 2, 3, 19
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) <= start || len(fields[0]) != 1 {
		return entry{}, errStat
	}
	e := entry{id: ID{PID: pid}, state: fields[0][0]}
	for _, f := range []struct {
		at int
		to *int
	}{{ppid, &e.ppid}, {pgid, &e.pgid}, {sid, &e.sid}} {
		n, err := strconv.Atoi(fields[f.at])
		if err != nil {
			return entry{}, errStat
		}
		*f.to = n
	}
	var err error
	if e.id.Start, err = strconv.ParseUint(fields[start], 10, 64); err != nil {
		return entry{}, errStat
	}
	return e, nil
}

// hasEnviron tells whether the process was started with this NAME=value; false where it may not be read.
func hasEnviron(pid int, variable string) bool {
	f, err := procfs.Open(strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	env, err := io.ReadAll(io.LimitReader(f, maxEnviron))
	if err != nil {
		return false
	}
	for v := range bytes.SplitSeq(env, []byte{0}) {
		if string(v) == variable {
			return true
		}
	}
	return false
}

// Unreaped counts this program's children that have exited and were not waited for.
func Unreaped() (int, error) {
	t, err := table()
	n := 0
	for _, e := range t {
		if e.ppid == os.Getpid() && e.state == zombie {
			n++
		}
	}
	return n, err
}
