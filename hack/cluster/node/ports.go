package node

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// listening is the state "0A" of proc(5)'s tcp table.
const listening = "0A"

// socket is a TCP listener.
type socket struct {
	address netip.AddrPort
	inode   string
}

// checkPorts refuses to start beside somebody who holds a port a component needs.
func checkPorts(components []component) error {
	var sockets []socket
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		content, err := os.ReadFile(table) // #nosec G304 -- constants
		if err != nil {
			continue // no IPv6
		}
		sockets = append(sockets, parseSockets(string(content))...)
	}
	var taken []error
	for _, c := range components {
		for _, wanted := range c.listens {
			if held, ok := collides(netip.MustParseAddrPort(wanted), sockets); ok {
				taken = append(taken, portInUse(c.name, wanted, held, holder("/proc", held.inode)))
			}
		}
	}
	return errors.Join(taken...)
}

func portInUse(component, wanted string, held socket, by string) error {
	return fmt.Errorf("%s needs %s, but %s listens on %s: stop it and try again", component, wanted, by, held.address)
}

// collides finds a listener on the same port and the same address, or on all addresses.
func collides(wanted netip.AddrPort, sockets []socket) (socket, bool) {
	at := slices.IndexFunc(sockets, func(s socket) bool {
		address := s.address.Addr().Unmap()
		return s.address.Port() == wanted.Port() && (address == wanted.Addr() || address.IsUnspecified())
	})
	if at < 0 {
		return socket{}, false
	}
	return sockets[at], true
}

// parseSockets reads the listeners of a table in the format of proc(5), /proc/net/tcp.
func parseSockets(table string) []socket {
	var found []socket
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		const local, state, inode = 1, 3, 9
		if len(fields) <= inode || fields[state] != listening {
			continue
		}
		address, ok := parseSocketAddress(fields[local])
		if ok {
			found = append(found, socket{address: address, inode: fields[inode]})
		}
	}
	return found
}

// parseSocketAddress reads "0100007F:303B": words of four bytes in the order of a little-endian machine.
func parseSocketAddress(text string) (netip.AddrPort, bool) {
	host, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(host)
	number, portErr := strconv.ParseUint(port, 16, 16)
	const word = 4
	if err != nil || portErr != nil || len(raw)%word != 0 {
		return netip.AddrPort{}, false
	}
	for at := 0; at < len(raw); at += word {
		slices.Reverse(raw[at : at+word])
	}
	address, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(address, uint16(number)), ok
}

// holder describes the process that has the socket open.
func holder(proc, inode string) string {
	link := "socket:[" + inode + "]"
	all, err := processes(proc)
	if err != nil {
		return "another process"
	}
	for _, p := range all {
		dir := filepath.Join(proc, strconv.Itoa(p.pid), "fd")
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, entry := range entries {
			if target, err := os.Readlink(filepath.Join(dir, entry.Name())); err == nil && target == link {
				return fmt.Sprintf("process %d (%s)", p.pid, p.exe)
			}
		}
	}
	return "another process"
}
