package figures

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// Machine says in words what this machine is, and on what kind of disk a directory lies.
func Machine(dir string) string {
	cpu, _ := os.ReadFile("/proc/cpuinfo") // without it the words are fewer
	memory, _ := os.ReadFile("/proc/meminfo")
	return machine(runtime.NumCPU(), runtime.GOARCH, string(cpu), string(memory), disk(dir))
}

// machine puts it in words. disk is a kind of disk, or nothing.
func machine(cores int, arch, cpu, memory, disk string) string {
	text := fmt.Sprintf("%d cores (%s)", cores, arch)
	if model := field(cpu, "model name"); model != "" {
		text = fmt.Sprintf("%d cores (%s, %s)", cores, arch, model)
	}
	if kib, err := strconv.ParseFloat(strings.TrimSuffix(field(memory, "MemTotal"), " kB"), 64); err == nil {
		text += fmt.Sprintf(", %.0f GiB of memory", kib/(1<<20))
	}
	if disk != "" {
		text += ", data on a " + disk + " disk"
	}
	return text + "; what is measured, its load and the API server share them."
}

// field is the value of the first line that is named so.
func field(text, name string) string {
	for line := range strings.Lines(text) {
		if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == name {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	return ""
}

// disk is what the kernel says of the disk that has a directory, or nothing. Virtual ones are told first: they say of themselves that they
// rotate.
func disk(dir string) string {
	var s syscall.Stat_t
	if err := syscall.Stat(dir, &s); err != nil {
		return ""
	}
	const minorBits, minorMask, majorMask = 8, 0xff, 0xfff // as far as disks have them
	device, err := filepath.EvalSymlinks(fmt.Sprintf("/sys/dev/block/%d:%d", s.Dev>>minorBits&majorMask, s.Dev&minorMask))
	if err != nil {
		return ""
	}
	if strings.Contains(device, "/virtio") {
		return "virtual"
	}
	for _, part := range []string{"queue", "../queue"} { // of a disk; of a partition
		if text, err := os.ReadFile(filepath.Join(device, part, "rotational")); err == nil {
			return map[string]string{"0": "solid-state", "1": "rotating"}[strings.TrimSpace(string(text))]
		}
	}
	return ""
}
