package figures

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Table is a result as Markdown that also reads well as it is. A column that nothing is in is left out.
func Table(r Result) string {
	rows := [][]string{{"id", "figure", "ours", "limit", "ratio", "aim", "met", "rounds", "CPU ms a run"}}
	for _, f := range r.Figures {
		rows = append(rows, []string{f.ID, f.Figure, value(f.Ours, f.Unit), value(f.Limit, f.Unit), value(f.Ratio, ""), aim(f), met(f.Met), between(f.Range), cpu(f.CPU)})
	}
	return r.Machine + "\n\n" + markdown(rows)
}

// markdown lays rows out, the first of which is the head.
func markdown(rows [][]string) string {
	widths := make([]int, len(rows[0]))
	used := make([]bool, len(rows[0]))
	for i, row := range rows {
		for j, cell := range row {
			widths[j] = max(widths[j], utf8.RuneCountInString(cell))
			used[j] = used[j] || i > 0 && cell != ""
		}
	}
	var b strings.Builder
	line := func(row []string, fill string) {
		b.WriteString("|")
		for j, cell := range row {
			if used[j] {
				b.WriteString(" " + cell + strings.Repeat(fill, widths[j]-utf8.RuneCountInString(cell)) + " |")
			}
		}
		b.WriteString("\n")
	}
	line(rows[0], " ")
	line(make([]string, len(rows[0])), "-")
	for _, row := range rows[1:] {
		line(row, " ")
	}
	return b.String()
}

func value(v *float64, unit string) string {
	if v == nil {
		return ""
	}
	return strings.TrimSpace(number(*v) + " " + unit)
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func aim(f Figure) string {
	if f.Aim == nil {
		return ""
	}
	text := f.Aim.String()
	if of, rest, _ := strings.Cut(text, " "); of == OfOurs {
		return strings.TrimSpace(rest + " " + f.Unit)
	}
	return text
}

func met(m *bool) string {
	switch {
	case m == nil:
		return ""
	case *m:
		return "yes"
	default:
		return "**no**"
	}
}

func between(r []float64) string {
	if len(r) != 2 {
		return ""
	}
	return number(r[0]) + " to " + number(r[1])
}

func cpu(millis map[string]float64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(millis)) {
		parts = append(parts, name+" "+number(millis[name]))
	}
	return strings.Join(parts, ", ")
}
