package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestOnlyTheProgramsOfThisClusterAreCounted(t *testing.T) {
	const dir = "/state/cluster"
	for _, c := range []struct{ line, cgroups, want string }{
		{"/cache/etcd --data-dir=/state/cluster/etcd", "1:cpu:/\n", "etcd"},
		{"/cache/etcd --data-dir=/tmp/other/etcd", "1:cpu:/\n", ""},
		{"/cache/etcd --data-dir=/state/cluster-2/etcd", "1:cpu:/\n", ""},
		{"/controller --leader-elect", "1:cpu:/hearth/kubepods/burstable/podx/y\n", "controller"},
		{"/tmp/controller --kubeconfig=/tmp/x", "1:cpu:/\n", ""},
		{"/usr/bin/goose acp", "0::/kubepods/besteffort/podx/y\n", "goose"},
		{"", "", ""},
	} {
		assert.Equal(t, c.want, counted(strings.ReplaceAll(c.line, " ", "\x00"), c.cgroups, dir), c.line)
	}
}

func TestWhatTheClusterUsesAnywayIsTakenOff(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	without := idle{used: spent{"etcd": ms(50), "kubelet": ms(500)}, took: 5 * time.Second}
	costs := perRun(spent{"etcd": ms(1000), "kubelet": ms(100)}, spent{"etcd": ms(1200), "kubelet": ms(200), "goose": ms(400)}, 10*time.Second, 40, without)
	assert.InDeltaMapValues(t, map[string]float64{"etcd": 2.5, "kubelet": 0, "goose": 10}, costs, 1e-9)
}
