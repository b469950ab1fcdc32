package page

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// What a text may take on a page, in bytes; the rest is one kubectl away.
const (
	maxText = 1 << 10 // a message
	maxCell = 200     // one within a table
)

// clean makes a text of the cluster fit to be shown: bounded, without control characters, and without those that change the direction
// of what follows them. Templates escape it as well.
func clean(s string, limit int) string {
	cut := wire.CutText(wire.CleanText(s), limit)
	out := strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t', r == '\r':
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), unicode.Is(unicode.Noncharacter_Code_Point, r):
			return unicode.ReplacementChar
		default:
			return r
		}
	}, cut)
	if len(cut) < len(s) {
		out += "…"
	}
	return out
}

// stamp is a moment as a page tells it: exact for machines, relative for people.
type stamp struct {
	at, now time.Time
}

// Set tells whether there is such a moment.
func (s stamp) Set() bool { return !s.at.IsZero() }

// ISO is the moment in RFC 3339, in UTC.
func (s stamp) ISO() string { return s.at.UTC().Format(time.RFC3339) }

// Exact is the moment for a person, in UTC.
func (s stamp) Exact() string { return s.at.UTC().Format("2006-01-02 15:04:05 UTC") }

// Ago is the moment as seen from now.
func (s stamp) Ago() string {
	switch d := s.now.Sub(s.at).Round(time.Second); {
	case d == 0:
		return "now"
	case d > 0:
		return span(d) + " ago"
	default:
		return "in " + span(-d)
	}
}

// Age is how long ago it was; a clock that is ahead of ours makes nothing younger than now.
func (s stamp) Age() string { return span(max(0, s.now.Sub(s.at))) }

// span is a length of time in one or two units.
func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second && d%time.Second >= 100*time.Millisecond:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return two(int(d.Minutes()), "min", int(d.Seconds())%60, "s")
	case d < 24*time.Hour:
		return two(int(d.Hours()), "h", int(d.Minutes())%60, "min")
	default:
		return two(int(d.Hours())/24, "d", int(d.Hours())%24, "h")
	}
}

func two(big int, unit string, small int, smaller string) string {
	if small == 0 {
		return fmt.Sprintf("%d %s", big, unit)
	}
	return fmt.Sprintf("%d %s %d %s", big, unit, small, smaller)
}

func micro(t *metav1.MicroTime) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

func second(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}
