package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

const (
	widthStatus = 11
	widthCheck  = 15
)

// Print writes a report for people: a line a check, and under one that says more what was seen, what to do and where to read on.
func Print(w io.Writer, r *Report) error {
	var out strings.Builder
	for _, f := range r.Findings {
		about := ""
		if f.About != "" {
			about = f.About + ": "
		}
		fmt.Fprintf(&out, "%-*s  %-*s  %s%s\n", widthStatus, f.Status, widthCheck, f.Check, about, f.Says)
		indent := strings.Repeat(" ", widthStatus+2)
		if f.Saw != "" {
			fmt.Fprintf(&out, "%ssaw: %s\n", indent, f.Saw)
		}
		for _, command := range f.Do {
			fmt.Fprintf(&out, "%sdo:  %s\n", indent, command)
		}
		if f.See != "" {
			fmt.Fprintf(&out, "%ssee: %s (%s)\n", indent, f.See, f.Code)
		}
	}
	if r.Run != nil {
		printRun(&out, r.Run)
	}
	fmt.Fprintf(&out, "\n%d ok, %d broken, %s, %d not checked, %d skipped\n", r.Count(StatusOK), r.Count(StatusFail), count(r.Count(StatusHint), "hint"), r.Count(StatusNotChecked), r.Count(StatusSkipped))
	_, err := io.WriteString(w, out.String())
	return err
}

func printRun(out *strings.Builder, d *Delivered) {
	fmt.Fprintf(out, "\nrun %s\n", d.Name)
	var first time.Time
	for i, s := range d.Steps {
		if i == 0 {
			first = s.At
		}
		fmt.Fprintf(out, "  %s  +%-9s %s\n", s.At.UTC().Format("15:04:05.000"), s.At.Sub(first).Round(time.Millisecond), s.What)
	}
}

// PrintJSON writes it for machines.
func PrintJSON(w io.Writer, r *Report) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(r)
}
