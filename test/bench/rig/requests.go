package rig

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Requests count what an API server answered, by verb and resource such as "PUT agentruns/status".
type Requests map[string]float64

const requestTotal = "apiserver_request_total{"

// ParseRequests reads the counts from a kube-apiserver's metrics. Leases are left out: they cost what they cost without any run.
func ParseRequests(metrics []byte) (Requests, error) {
	counts := Requests{}
	lines := bufio.NewScanner(bytes.NewReader(metrics))
	lines.Buffer(nil, len(metrics)+1)
	for lines.Scan() {
		line, found := strings.CutPrefix(lines.Text(), requestTotal)
		if !found {
			continue
		}
		labels, number, found := strings.Cut(line, "} ")
		value, err := strconv.ParseFloat(number, 64)
		if !found || err != nil {
			return nil, fmt.Errorf("count requests: expected labels and a number, got %.200q", line)
		}
		resource, verb := label(labels, "resource"), label(labels, "verb")
		if resource == "" || resource == "leases" {
			continue
		}
		if sub := label(labels, "subresource"); sub != "" {
			resource += "/" + sub
		}
		counts[verb+" "+resource] += value
	}
	return counts, lines.Err()
}

// label is a label's value, of those that have no quotation mark in them.
func label(labels, name string) string {
	for _, l := range strings.Split(labels, ",") {
		if value, found := strings.CutPrefix(l, name+`="`); found {
			return strings.TrimSuffix(value, `"`)
		}
	}
	return ""
}

// Since is what was counted after an earlier reading, of one run of so many; what rounds to nothing is left out.
func (r Requests) Since(earlier Requests, runs int) Requests {
	const least = 0.005
	each := Requests{}
	for what, n := range r {
		if per := (n - earlier[what]) / float64(runs); per >= least {
			each[what] = per
		}
	}
	return each
}

// Sum is how many there are in all.
func (r Requests) Sum() float64 {
	var sum float64
	for _, n := range r {
		sum += n
	}
	return sum
}

// String lists them, in the order of their names.
func (r Requests) String() string {
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(r)) {
		parts = append(parts, fmt.Sprintf("%s %.2f", what, r[what]))
	}
	return strings.Join(parts, ", ")
}
