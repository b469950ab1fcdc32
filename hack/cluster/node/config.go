package node

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"text/template"
)

//go:embed files
var files embed.FS

const (
	pauseImage     = "localhost/pause:1"
	cniBinaries    = "/usr/lib/cni" // where Debian has them
	resolvConf     = "/etc/resolv.conf"
	overlayfsMagic = 0x794c7630
)

// settings is what the templates in files/ may name.
type settings struct {
	Dir, Socket, PauseImage, CNIBinaries, Snapshotter string
	NodeAddress, PodSubnet, CgroupRoot, NATTable      string
	Forward                                           bool
}

func (p Place) settings() settings {
	return settings{
		Dir: p.dir, Socket: p.socket(), PauseImage: pauseImage, CNIBinaries: cniBinaries, Snapshotter: snapshotter(p.dir),
		NodeAddress: NodeAddress, PodSubnet: PodSubnet, CgroupRoot: cgroupRoot, NATTable: natTable,
		Forward: hasNameserver(resolvConf),
	}
}

// writeConfiguration makes the directories and renders every file the components read.
func (p Place) writeConfiguration() error {
	for _, dir := range []string{"", "logs", "pki", "kubeconfigs", "cni", "containerd", "kubelet", "podlogs", "volumeplugins"} {
		if err := os.MkdirAll(p.path(dir), 0o700); err != nil {
			return fmt.Errorf("create the cluster directory: %w", err)
		}
	}
	values := p.settings()
	for name, target := range map[string]string{
		"containerd.toml": "containerd.toml",
		"cni.conflist":    "cni/10-hearth.conflist",
		"kubelet.yaml":    "kubelet.yaml",
		"Corefile":        "Corefile",
		"audit.yaml":      "audit.yaml",
		"nat.nft":         "nat.nft",
	} {
		content, err := render(name, values)
		if err != nil {
			return err
		}
		if err := os.WriteFile(p.path(target), content, 0o600); err != nil {
			return fmt.Errorf("write configuration: %w", err)
		}
	}
	return nil
}

func render(name string, values settings) ([]byte, error) {
	source, err := fs.ReadFile(files, "files/"+name)
	if err != nil {
		return nil, fmt.Errorf("read template: %w", err)
	}
	parsed, err := template.New(name).Option("missingkey=error").Parse(string(source))
	if err != nil {
		return nil, fmt.Errorf("parse template: %w", err)
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, values); err != nil {
		return nil, fmt.Errorf("render template: %w", err)
	}
	return out.Bytes(), nil
}

// snapshotter avoids overlayfs on overlayfs, which the kernel refuses: the directory may itself be in a container.
func snapshotter(dir string) string {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err == nil && stat.Type == overlayfsMagic {
		return "native"
	}
	return "overlayfs"
}

// hasNameserver says whether names outside the cluster can be asked for at all; CoreDNS does not start with a
// forwarder that goes nowhere.
func hasNameserver(path string) bool {
	content, err := os.ReadFile(path) // #nosec G304 -- a constant, or a test's file
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(content)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "nameserver" {
			return true
		}
	}
	return false
}
