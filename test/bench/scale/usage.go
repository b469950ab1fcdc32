package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/hearthdev/hearth/test/bench/rig"
)

// usage is what the controller holds at one moment.
type usage struct {
	// live is the heap that is reachable and the stacks, in bytes, after a garbage collection: what the process needs.
	live int64
	// resident and peak are its memory as the system counts it.
	resident, peak int64
	goroutines     int
}

func (u usage) String() string {
	return fmt.Sprintf("live %.1f MiB, resident %.1f MiB, peak %.1f MiB, %d goroutines", mib(u.live), mib(u.resident), mib(u.peak), u.goroutines)
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// held has the controller collect its garbage, and reads what is left.
func held(ctx context.Context, r *rig.Rig) (usage, error) {
	var u usage
	c := r.Controller()
	text, err := fetch(ctx, "http://"+c.Pprof+"/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		return u, err
	}
	heap, err := field(text, "# HeapAlloc = ")
	if err != nil {
		return u, err
	}
	stacks, err := field(text, "# Stack = ")
	if err != nil {
		return u, err
	}
	u.live = heap + stacks
	all, err := scrape(ctx, r)
	if err != nil {
		return u, err
	}
	u.goroutines = int(all.sum("go_goroutines"))
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.PID()))
	if err != nil {
		return u, fmt.Errorf("memory of the controller: %w", err)
	}
	for name, to := range map[string]*int64{"VmRSS:": &u.resident, "VmHWM:": &u.peak} {
		kib, err := field(status, name)
		if err != nil {
			return u, err
		}
		*to = kib << 10
	}
	return u, nil
}

// field is the first number of the line that begins so.
func field(text []byte, prefix string) (int64, error) {
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			if fields := strings.Fields(rest); len(fields) > 0 {
				return strconv.ParseInt(fields[0], 10, 64)
			}
		}
	}
	return 0, fmt.Errorf("expected a line %q with a number", prefix)
}

// metrics are a scrape's samples.
type metrics map[string]float64

// scrape reads the controller's metrics.
func scrape(ctx context.Context, r *rig.Rig) (metrics, error) {
	text, err := fetch(ctx, "http://"+r.Controller().Metrics+"/metrics")
	if err != nil {
		return nil, err
	}
	return parse(text), nil
}

// parse reads the text form of metrics.
func parse(text []byte) metrics {
	all := metrics{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		at := strings.LastIndexByte(lines.Text(), ' ')
		if at < 0 || strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		if value, err := strconv.ParseFloat(lines.Text()[at+1:], 64); err == nil {
			all[lines.Text()[:at]] = value
		}
	}
	return all
}

// sum adds up the samples of a name that have all these labels, as in `controller="deliver-run"`.
func (m metrics) sum(name string, labels ...string) float64 {
	total := 0.0
next:
	for sample, value := range m {
		of, rest, _ := strings.Cut(sample, "{")
		if of != name {
			continue
		}
		for _, label := range labels {
			if !strings.Contains(rest, label) {
				continue next
			}
		}
		total += value
	}
	return total
}

const maxText = 64 << 20

func fetch(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, response.Status)
	}
	return io.ReadAll(io.LimitReader(response.Body, maxText))
}

// until waits for a condition of the controller's metrics.
func until(ctx context.Context, r *rig.Rig, patience time.Duration, what string, holds func(metrics) bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		if all, err := scrape(ctx, r); err == nil && holds(all) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited %v for %s, in vain: %w\n%s", patience, what, ctx.Err(), r.Logs())
		case <-ticker.C:
		}
	}
}

// lookEvery is how often it looks: often enough to tell seconds, and seldom enough to cost next to nothing. For each look the controller goes
// through all that its targets have; at twenty a second that was a tenth of a restart's processor time.
const lookEvery = 250 * time.Millisecond
