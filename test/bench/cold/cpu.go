package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hearthdev/hearth/test/bench/procs"
)

// Whose processor time is counted: the programs of the cluster itself, and those of its Pods.
var (
	ofCluster = []string{"etcd", "kube-apiserver", "kubelet"}
	ofPods    = []string{"controller", "harness", "goose", "llm"}
)

// spent is the processor time that programs used, by their name.
type spent map[string]time.Duration

// processorTime reads what the programs of the cluster have used whose files are in that directory. It is empty where the node is not this machine.
func processorTime(cluster string) spent {
	used := spent{}
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return used
	}
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		cgroups, err := os.ReadFile(filepath.Join(filepath.Dir(file), "cgroup"))
		if err != nil {
			continue
		}
		name := counted(string(line), string(cgroups), cluster)
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if name == "" || err != nil {
			continue
		}
		if cpu, err := procs.CPU(pid); err == nil {
			used[name] += cpu
		}
	}
	return used
}

// counted is the name under which a process with that command line and those cgroups is counted, if it is.
func counted(line, cgroups, cluster string) string {
	program, _, _ := strings.Cut(line, "\x00")
	name := filepath.Base(program)
	if slices.Contains(ofCluster, name) && strings.Contains(line, cluster+"/") || slices.Contains(ofPods, name) && strings.Contains(cgroups, "/kubepods") {
		return name
	}
	return ""
}

// idle is what was used while nothing was asked for, and how long that was.
type idle struct {
	used spent
	took time.Duration
}

// perRun is what each of so many runs cost in that time, in milliseconds by program: what was used from before to after, without what
// would have been used without them.
func perRun(before, after spent, took time.Duration, runs int, without idle) map[string]float64 {
	costs := map[string]float64{}
	for name, used := range after {
		anyway := float64(without.used[name]) * float64(took) / float64(without.took)
		costs[name] = max(0, (float64(used-before[name])-anyway)/float64(runs)/float64(time.Millisecond))
	}
	return costs
}
