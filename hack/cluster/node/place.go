// Package node runs a single-node Kubernetes on this machine and takes it away again.
//
// What exists is read from the machine itself (/proc, mounts, links, cgroups), never from notes an earlier call left:
// after a SIGKILL the machine is right and the notes are not. For the same reason `down` and the recovery inside `up`
// are one piece of code.
package node

import (
	"errors"
	"fmt"
	"path/filepath"
)

// The addresses and names of the one cluster a machine can hold.
const (
	Bridge      = "hearth0"
	NodeName    = "node1"
	NodeAddress = "10.77.0.1"
	PodSubnet   = "10.77.0.0/24"
	Services    = "10.96.0.0/16"
	apiService  = "10.96.0.1"
	loopback    = "127.0.0.1"
	cgroupRoot  = "hearth"
	natTable    = "hearth"
	apiPort     = "16443"
)

// maxDir keeps the paths of Unix sockets below the kernel's 107 bytes.
const maxDir = 70

// Place is the directory that holds everything one cluster writes. It is removed with the cluster.
type Place struct{ dir string }

// NewPlace chooses HEARTH_CLUSTER_DIR, or hearth/cluster under the user's state directory.
func NewPlace(getenv func(string) string) (Place, error) {
	dir := getenv("HEARTH_CLUSTER_DIR")
	if dir == "" {
		state := getenv("XDG_STATE_HOME")
		if state == "" {
			home := getenv("HOME")
			if home == "" {
				return Place{}, errors.New("HOME, XDG_STATE_HOME and HEARTH_CLUSTER_DIR are all empty: set one of them")
			}
			state = filepath.Join(home, ".local", "state")
		}
		dir = filepath.Join(state, "hearth", "cluster")
	}
	if !filepath.IsAbs(dir) {
		return Place{}, fmt.Errorf("cluster directory %q: expected an absolute path", dir)
	}
	dir = filepath.Clean(dir)
	if len(dir) > maxDir {
		return Place{}, fmt.Errorf("cluster directory %q: %d bytes long, expected at most %d (set HEARTH_CLUSTER_DIR)", dir, len(dir), maxDir)
	}
	if filepath.Dir(dir) == "/" {
		return Place{}, fmt.Errorf("cluster directory %q: expected at least two levels, because it is removed as a whole", dir)
	}
	return Place{dir: dir}, nil
}

// Dir is the directory itself.
func (p Place) Dir() string { return p.dir }

// Kubeconfig is the administrator's.
func (p Place) Kubeconfig() string { return p.path("kubeconfig") }

// Log is where a component writes.
func (p Place) Log(component string) string { return p.path("logs", component+".log") }

func (p Place) path(elements ...string) string {
	return filepath.Join(append([]string{p.dir}, elements...)...)
}

func (p Place) socket() string { return p.path("containerd.sock") }

func (p Place) pki(name string) string { return p.path("pki", name) }

func (p Place) kubeconfigOf(component string) string { return p.path("kubeconfigs", component) }
