package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Verdict is how a case ended.
type Verdict string

// The verdicts.
const (
	Pass          Verdict = "pass"
	Fail          Verdict = "FAIL"
	NotRun        Verdict = "not run" // something that the case needs was not given
	NotApplicable Verdict = "n/a"     // there is nothing to check on this runtime
)

// Result is how one case ended, and why unless it passed.
type Result struct {
	ID      string  `json:"id"`
	Title   string  `json:"title"`
	Verdict Verdict `json:"verdict"`
	Why     string  `json:"why,omitempty"`
	Millis  int64   `json:"millis"`
}

// Report is a whole run of the kit.
type Report struct {
	Target  string   `json:"target"`
	Pod     string   `json:"pod"`
	Results []Result `json:"results"`
}

// Count counts the results with a verdict.
func (r Report) Count(v Verdict) int {
	n := 0
	for _, result := range r.Results {
		if result.Verdict == v {
			n++
		}
	}
	return n
}

// Conforms tells whether no case failed and, unless that is allowed, none was left out.
func (r Report) Conforms(allowNotRun bool) bool {
	return r.Count(Fail) == 0 && (allowNotRun || r.Count(NotRun) == 0)
}

// WriteTable writes a row for each case, and the sum.
func (r Report) WriteTable(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(table, "ID\tREQUIREMENT\tVERDICT  WHY\n")
	for _, c := range r.Results {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\n", c.ID, c.Title, strings.TrimRight(fmt.Sprintf("%-7s  %s", c.Verdict, c.Why), " "))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	_, err := fmt.Fprintf(w, "\n%d cases: %d passed, %d failed, %d not run, %d not applicable\n",
		len(r.Results), r.Count(Pass), r.Count(Fail), r.Count(NotRun), r.Count(NotApplicable))
	if err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	return nil
}

// WriteJSON writes the report as indented JSON.
func (r Report) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(r); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}
