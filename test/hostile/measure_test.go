package hostile

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/test/bench/procs"
)

// measure is what the process holds at one moment.
type measure struct {
	files  int   // open files; -1 where only root may count those of a process that hides from its agents
	memory int64 // that is resident, in bytes
}

func (p *pod) measure() measure {
	p.t.Helper()
	m := measure{files: -1}
	if entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid)); err == nil {
		m.files = len(entries)
	}
	var err error
	m.memory, err = procs.Resident(p.cmd.Process.Pid)
	require.NoError(p.t, err, p.log.String())
	return m
}

// sockets counts the accepted connections of both ports: those with an inode are some process's (proc_net_tcp(5)).
func (p *pod) sockets() int {
	p.t.Helper()
	ports := map[string]bool{}
	for _, address := range []string{p.acp, p.delivery} {
		_, port, err := net.SplitHostPort(address)
		require.NoError(p.t, err)
		n, err := strconv.Atoi(port)
		require.NoError(p.t, err)
		ports[fmt.Sprintf("%04X", n)] = true
	}
	file, err := os.Open("/proc/net/tcp")
	require.NoError(p.t, err)
	defer func() { _ = file.Close() }()
	count := 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		// sl local_address rem_address st tx:rx tr:tm retrnsmt uid timeout inode
		f := strings.Fields(lines.Text())
		const listen = "0A"
		if len(f) < 10 || f[3] == listen || f[9] == "0" {
			continue
		}
		if _, port, _ := strings.Cut(f[1], ":"); ports[port] {
			count++
		}
	}
	return count
}

// row is one attack in the table.
type row struct {
	attack, scheme        string
	before, during, after measure
	clients, tries        int
	slowestProbe          time.Duration
}

// table prints what each attack cost.
func table(t *testing.T, rows []row) {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-50s %-11s %8s %16s %19s %6s %9s\n", "attack", "on", "clients", "open files", "memory MiB", "run", "probe")
	fmt.Fprintf(&b, "%-50s %-11s %8s %16s %19s %6s %9s\n", "", "", "", "before/max/after", "before/max/after", "tries", "slowest")
	for _, r := range rows {
		mib := func(bytes int64) float64 { return float64(bytes) / (1 << 20) }
		fmt.Fprintf(&b, "%-50s %-11s %8d %16s %19s %6d %7.1fms\n", r.attack, map[string]string{"HTTPS": "HTTPS, 4000", "HTTP": "HTTP"}[r.scheme], r.clients,
			fmt.Sprintf("%d/%d/%d", r.before.files, r.during.files, r.after.files),
			fmt.Sprintf("%.0f/%.0f/%.0f", mib(r.before.memory), mib(r.during.memory), mib(r.after.memory)), r.tries, float64(r.slowestProbe.Microseconds())/1000)
	}
	t.Log(b.String())
}
