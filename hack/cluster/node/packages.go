package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// requirement is a file the node needs and the Debian package that has it.
type requirement struct{ file, debian string }

func requirements() []requirement {
	return []requirement{
		{"containerd", "containerd"}, {"containerd-shim-runc-v2", "containerd"}, {"ctr", "containerd"}, {"runc", "runc"},
		{cniBinaries + "/ptp", "containernetworking-plugins"}, {cniBinaries + "/host-local", "containernetworking-plugins"},
		{cniBinaries + "/loopback", "containernetworking-plugins"},
		{"nft", "nftables"}, {"ip", "iproute2"}, {"mount", "mount"},
		{"/etc/ssl/certs/ca-certificates.crt", "ca-certificates"},
	}
}

// missing names each package once that has a file which exists says is not there.
func missing(needed []requirement, exists func(file string) bool) []string {
	var packages []string
	seen := map[string]bool{}
	for _, r := range needed {
		if !exists(r.file) && !seen[r.debian] {
			seen[r.debian] = true
			packages = append(packages, r.debian)
		}
	}
	return packages
}

// installed looks for a path as it is and for a name in PATH.
func installed(file string) bool {
	if strings.HasPrefix(file, "/") {
		_, err := os.Stat(file)
		return err == nil
	}
	_, err := exec.LookPath(file)
	return err == nil
}

// installPackages asks Debian for what is missing, and for nothing when nothing is.
func installPackages(ctx context.Context, progress io.Writer) error {
	packages := missing(requirements(), installed)
	if len(packages) == 0 {
		return nil
	}
	list := strings.Join(packages, " ")
	if !installed("apt-get") {
		return fmt.Errorf("missing on this machine: %s; expected Debian's apt-get, or these packages under the names Debian has for them", list)
	}
	fmt.Fprintf(progress, "installing %s\n", list)
	for _, args := range [][]string{
		{"apt-get", "update", "-qq"},
		append([]string{"apt-get", "install", "-y", "-qq", "--no-install-recommends"}, packages...),
	} {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...) // #nosec G204 -- constant names
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w; the end of its output:\n%s", strings.Join(args, " "), err, lastLines(string(output)))
		}
	}
	if left := missing(requirements(), installed); len(left) > 0 {
		return errors.New("still missing after installing them: " + strings.Join(left, " "))
	}
	return nil
}
