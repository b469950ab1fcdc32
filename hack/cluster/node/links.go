package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// aliasFile is where the bridge says whose it is. Everything machine-wide is made after the bridge has its alias,
// so that what a killed node left can be traced to its directory.
const aliasFile = "/sys/class/net/" + Bridge + "/ifalias"

// owner returns the directory of the node the bridge belongs to; found is false when there is no bridge. A bridge
// without an alias is what a call left that was killed between two commands.
func owner() (dir string, found bool, err error) {
	alias, err := os.ReadFile(aliasFile)
	if errors.Is(err, os.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("read whose bridge %s is: %w", Bridge, err)
	}
	return strings.TrimSpace(string(alias)), true, nil
}

// makeNetwork creates the bridge, which carries the node's address, and the NAT table.
func (p Place) makeNetwork(ctx context.Context) error {
	for _, args := range [][]string{
		{"ip", "link", "add", "name", Bridge, "type", "bridge"},
		{"ip", "link", "set", Bridge, "alias", p.dir},
		{"ip", "addr", "add", NodeAddress + "/32", "dev", Bridge},
		{"ip", "link", "set", Bridge, "up"},
		{"nft", "-f", p.path("nat.nft")},
	} {
		if err := command(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// removeNetwork takes away the Pods' links, the bridge and the tables, ours and kube-proxy's.
func removeNetwork(ctx context.Context) error {
	interfaces, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("list links: %w", err)
	}
	for _, link := range interfaces {
		// Pods' links carry the node's address; they vanish by themselves with their other end, but later.
		if link.Name != Bridge && !(strings.HasPrefix(link.Name, "veth") && carries(link, NodeAddress)) {
			continue
		}
		if err := command(ctx, "ip", "link", "delete", link.Name); err != nil && linkExists(link.Name) {
			return err
		}
	}
	var failed []error
	for _, table := range []string{"ip " + natTable, "ip kube-proxy", "ip6 kube-proxy"} {
		family, name, _ := strings.Cut(table, " ")
		// Adding first makes deleting succeed when there is none.
		failed = append(failed, command(ctx, "nft", fmt.Sprintf("add table %[1]s %[2]s; delete table %[1]s %[2]s", family, name)))
	}
	return errors.Join(failed...)
}

// conflict names an address of this machine that lies in a range the cluster uses.
func conflict(link string, addresses []net.Addr) error {
	for _, address := range addresses {
		prefix, err := netip.ParsePrefix(address.String())
		if err != nil {
			continue
		}
		for _, used := range []string{PodSubnet, Services} {
			if netip.MustParsePrefix(used).Contains(prefix.Addr()) {
				return fmt.Errorf("link %s has address %s, in the range %s that the cluster uses for itself", link, prefix, used)
			}
		}
	}
	return nil
}

func checkAddresses() error {
	interfaces, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("list links: %w", err)
	}
	for _, link := range interfaces {
		addresses, err := link.Addrs()
		if err != nil {
			continue // gone
		}
		if err := conflict(link.Name, addresses); err != nil {
			return err
		}
	}
	return nil
}

func carries(link net.Interface, address string) bool {
	addresses, err := link.Addrs()
	if err != nil {
		return false
	}
	for _, a := range addresses {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr().String() == address {
			return true
		}
	}
	return false
}

func linkExists(name string) bool {
	_, err := os.Lstat(filepath.Join("/sys/class/net", name))
	return err == nil
}

// command runs a program whose output matters only when it fails.
func command(ctx context.Context, args ...string) error {
	output, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput() // #nosec G204 -- constants and our own paths
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(output)))
	}
	return nil
}
