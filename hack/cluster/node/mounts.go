package node

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const (
	mountTable      = "/proc/self/mountinfo"
	unmountNoFollow = 8 // UMOUNT_NOFOLLOW of umount(2), which package syscall lacks
)

// mount is one line of the mount table.
type mount struct{ point, kind string }

func mounts() ([]mount, error) {
	content, err := os.ReadFile(mountTable)
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	return parseMounts(string(content)), nil
}

// parseMounts reads the format of proc_pid_mountinfo(5).
func parseMounts(table string) []mount {
	var found []mount
	for line := range strings.Lines(table) {
		left, right, ok := strings.Cut(strings.TrimSpace(line), " - ")
		fields, tail := strings.Fields(left), strings.Fields(right)
		const point = 4
		if !ok || len(fields) <= point || len(tail) == 0 {
			continue
		}
		found = append(found, mount{point: unescape(fields[point]), kind: tail[0]})
	}
	return found
}

// unescape turns the kernel's \040 back into a blank, and so on.
func unescape(path string) string {
	var out strings.Builder
	for i := 0; i < len(path); i++ {
		const digits = 3
		if path[i] == '\\' && i+digits < len(path) {
			if code, err := strconv.ParseUint(path[i+1:i+1+digits], 8, 8); err == nil {
				out.WriteByte(byte(code))
				i += digits
				continue
			}
		}
		out.WriteByte(path[i])
	}
	return out.String()
}

// under returns the mount points in dir, the last mounted first.
func under(all []mount, dir string) []string {
	var points []string
	for _, m := range all {
		if m.point == dir || strings.HasPrefix(m.point, dir+"/") {
			points = append(points, m.point)
		}
	}
	slices.Reverse(points)
	return points
}

// unmountUnder takes away every mount in dir, and fails if one is left: the caller is about to remove the directory,
// and what is mounted there may be somebody's data.
func unmountUnder(dir string) error {
	all, err := mounts()
	if err != nil {
		return err
	}
	for _, point := range under(all, dir) {
		err := syscall.Unmount(point, syscall.MNT_DETACH|unmountNoFollow)
		if err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOENT) {
			return fmt.Errorf("unmount %s: %w", point, err)
		}
	}
	if all, err = mounts(); err != nil {
		return err
	}
	if left := under(all, dir); len(left) > 0 {
		return fmt.Errorf("%s is still mounted: unmount it before its directory can be removed", left[0])
	}
	return nil
}
