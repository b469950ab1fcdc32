package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	clockLayout = "15:04:05.000000"
	maxLine     = 200
)

// moment is one point of a run's timeline; at is zero when the record does not have it.
type moment struct {
	name, whose string
	at          time.Time
}

func moments(r result) []moment {
	at := func(t *metav1.MicroTime) time.Time {
		if t == nil {
			return time.Time{}
		}
		return t.Time
	}
	s := r.run.Status
	out := []moment{{name: "created", whose: "this client's clock, at send", at: r.sent}}
	if s.Delivery != nil {
		out = append(out,
			moment{"reserved", "controller", at(s.Delivery.ReservedAt)},
			moment{"accepted", "harness", at(s.Delivery.AcceptedAt)})
	}
	return append(out,
		moment{"started", "harness", at(s.StartTime)},
		moment{"recorded", "controller", at(s.RecordedAt)})
}

// printTimeline writes when what happened to a run, in milliseconds since its writer sent it and since the
// moment before, and what it said.
func printTimeline(w io.Writer, r result) {
	s := r.run.Status
	_, _ = fmt.Fprintf(w, "\n%s  %s/%s on %s\n", r.run.Name, s.Phase, s.Reason, s.PodName)
	before := r.sent
	for _, m := range moments(r) {
		if m.at.IsZero() {
			_, _ = fmt.Fprintf(w, "  %-9s not recorded\n", m.name)
			continue
		}
		_, _ = fmt.Fprintf(w, "  %-9s %s %10s %11s  (%s)\n", m.name, m.at.UTC().Format(clockLayout), milli(m.at.Sub(r.sent)), "+"+milli(m.at.Sub(before)), m.whose)
		before = m.at
	}
	if s.Message != "" {
		_, _ = fmt.Fprintf(w, "  message   %s\n", clip(s.Message))
	}
	said := strings.TrimRight(output(r.run), "\n")
	if said == "" {
		said = "(none)"
	}
	for i, line := range strings.Split(said, "\n") {
		title := "output"
		if i > 0 {
			title = ""
		}
		_, _ = fmt.Fprintf(w, "  %-9s %s\n", title, clip(line))
	}
}

func milli(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}

// clip shortens a line that would fill the screen.
func clip(line string) string {
	runes := []rune(line)
	if len(runes) <= maxLine {
		return line
	}
	return string(runes[:maxLine]) + "…"
}
