// Package check tells what is wrong with an agent's image or environment before a Pod does (SPEC.md, harness check). Each point is
// judged by a function of plain facts; the facts are gathered beside it.
package check

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"
)

// State is how a point came out.
type State string

// States of a point. A warning is something to know; only a failed point makes a harness fail, or an agent useless.
const (
	OK      State = "ok"
	Warning State = "warning"
	Failed  State = "failed"
	Skipped State = "skipped" // it does not apply here, or cannot be told before another point is ok
)

// Point is one thing that was looked at.
type Point struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	Found string `json:"found"`        // what was seen
	Do    string `json:"do,omitempty"` // what to do about it, unless it is ok or skipped
}

// Report is what came of all points, in order.
type Report struct {
	Points []Point

	secrets []string
}

// NewReport makes a report in which none of these texts is ever repeated.
func NewReport(secrets []string) *Report {
	r := &Report{secrets: slices.DeleteFunc(slices.Clone(secrets), func(s string) bool { return len(s) < minSecretBytes })}
	slices.SortFunc(r.secrets, func(a, b string) int { return len(b) - len(a) }) // one may be part of another
	return r
}

// minSecretBytes is how long a value is that is kept out of a report: shorter ones are parts of words.
const minSecretBytes = 4

// Add appends points.
func (r *Report) Add(points ...Point) {
	for _, p := range points {
		p.Found, p.Do = r.clean(p.Found), r.clean(p.Do)
		r.Points = append(r.Points, p)
	}
}

// clean takes secrets out, and what would command a terminal: an agent's stderr may be in it.
func (r *Report) clean(text string) string {
	for _, s := range r.secrets {
		text = strings.ReplaceAll(text, s, "[redacted]")
	}
	return strings.Map(func(c rune) rune {
		if c == '\n' || unicode.IsPrint(c) {
			return c
		}
		return ' '
	}, strings.TrimSpace(text))
}

// Failed tells whether a point failed.
func (r *Report) Failed() bool {
	return slices.ContainsFunc(r.Points, func(p Point) bool { return p.State == Failed })
}

// Table writes the report for people.
func (r *Report) Table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	counts := map[State]int{}
	for _, p := range r.Points {
		counts[p.State]++
		name, state := p.Name, string(p.State)
		for line := range strings.SplitSeq(p.Found, "\n") {
			_, _ = fmt.Fprintf(t, "%s\t%s\t%s\n", name, state, line)
			name, state = "", ""
		}
		if p.Do != "" {
			_, _ = fmt.Fprintf(t, "\t\t-> %s\n", p.Do)
		}
	}
	_, _ = fmt.Fprintf(t, "\n%d ok, %d warnings, %d failed, %d skipped\n", counts[OK], counts[Warning], counts[Failed], counts[Skipped])
	return t.Flush() // the first error of all
}

// JSON writes the report for programs.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		OK     bool    `json:"ok"`
		Points []Point `json:"points"`
	}{!r.Failed(), r.Points})
}

func ok(name, found string, args ...any) Point {
	return Point{Name: name, State: OK, Found: fmt.Sprintf(found, args...)}
}

func skipped(name, why string) Point { return Point{Name: name, State: Skipped, Found: why} }

func warning(name, found, do string) Point {
	return Point{Name: name, State: Warning, Found: found, Do: do}
}

func failed(name, found, do string) Point {
	return Point{Name: name, State: Failed, Found: found, Do: do}
}

// Judge makes a point of an error: failed with what to do, or ok with what was found.
func Judge(name string, err error, do, found string) Point {
	if err != nil {
		return failed(name, err.Error(), do)
	}
	return ok(name, "%s", found)
}

// Skip makes a point that does not apply.
func Skip(name, why string) Point { return skipped(name, why) }
