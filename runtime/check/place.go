package check

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// User judges who the harness, and so the agent, runs as.
func User(uid, gid int) Point {
	const name = "user"
	if uid == 0 {
		return warning(name, "runs as root: the agent can read the harness's memory, the root secret included",
			"set USER in the image to a number other than 0, and runAsNonRoot: true in the Pod")
	}
	return ok(name, "runs as %d:%d", uid, gid)
}

// Place is where the process runs.
type Place struct {
	Contained bool // in a container
	ReadOnly  bool // the root file system is
	PID       int
	Parent    string // the name of the parent process; "" if it cannot be told
	ParentPID int
}

// Look finds the place.
func Look(environ func(string) string) Place {
	p := Place{PID: os.Getpid(), ParentPID: os.Getppid()}
	p.Contained = p.PID == 1 || p.ParentPID == 1 || environ("KUBERNETES_SERVICE_HOST") != ""
	var fs unix.Statfs_t
	p.ReadOnly = unix.Statfs("/", &fs) == nil && fs.Flags&unix.ST_RDONLY != 0
	if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.ParentPID)); err == nil {
		p.Parent = filepath.Base(exe)
	}
	return p
}

// RootFileSystem judges whether somebody could write into the image.
func RootFileSystem(p Place) Point {
	const name = "root file system"
	switch {
	case p.ReadOnly:
		return ok(name, "is read-only")
	case !p.Contained:
		return skipped(name, "this is no container")
	default:
		return warning(name, "can be written to", "set readOnlyRootFilesystem: true; the controller's Pods have it, and an image that needs more than the data directory and /tmp fails there")
	}
}

// shells are programs that do not hand signals on.
var shells = map[string]bool{"sh": true, "bash": true, "dash": true, "ash": true, "busybox": true}

// FirstProcess judges whether signals reach the harness, and whether it reaps what the agent orphans. left is how many dead
// processes were not reaped.
func FirstProcess(p Place, left int) Point {
	const name = "PID 1"
	switch {
	case p.PID == 1 && left > 0:
		return failed(name, fmt.Sprintf("%d dead processes were not reaped", left), "report this: it is the harness's own fault")
	case p.PID == 1:
		return ok(name, "is the harness; orphans are reaped")
	case p.ParentPID == 1 && shells[p.Parent]:
		return warning(name, "is a shell ("+p.Parent+"), which hands no SIGTERM on: the Pod would be killed instead of drained",
			`write ENTRYPOINT as a list, ["/harness"], or start it with exec`)
	default:
		return skipped(name, fmt.Sprintf("this is process %d", p.PID))
	}
}

const probeMode = 0o700

// Directory judges whether a directory can be made and written to; what is missing of it is removed again.
func Directory(name, dir, do string) Point {
	if err := writable(dir); err != nil {
		return failed(name, err.Error(), do)
	}
	return ok(name, "%s can be written to", dir)
}

func writable(dir string) error {
	missing := dir
	for parent := filepath.Dir(dir); ; parent = filepath.Dir(parent) { // the topmost that is not there yet
		if _, err := os.Stat(parent); err == nil || parent == filepath.Dir(parent) {
			break
		}
		missing = parent
	}
	_, err := os.Stat(dir)
	made := err != nil
	if err := os.MkdirAll(dir, probeMode); err != nil {
		return err
	}
	if made {
		defer func() { _ = os.RemoveAll(missing) }()
	}
	f, err := os.CreateTemp(dir, "check-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	if _, err := f.WriteString("hearth"); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
