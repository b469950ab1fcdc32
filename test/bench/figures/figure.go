// Package figures is what benchmarks have in common: percentiles, medians of rounds, and a result that is kept as JSON beside the code and
// shown as a table in the documentation, so that a change shows in both. It is pure but for Read, Write and Document.
package figures

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Result is what one benchmark measured.
type Result struct {
	// Machine says in words where: cores, memory, kind of disk. No name and no date.
	Machine string   `json:"machine"`
	Figures []Figure `json:"figures"`
}

// Figure is one measured value, and what it is compared with. A pointer that is nil was not measured, or is not compared.
type Figure struct {
	// ID is that of the figure that it belongs to, such as P1.
	ID string `json:"id"`
	// Figure says what was measured.
	Figure string `json:"figure"`
	// Unit is that of Ours and Limit.
	Unit string   `json:"unit"`
	Ours *float64 `json:"ours,omitempty"`
	// Limit is the same for who does the least that can be done, measured in the same run or reckoned.
	Limit *float64 `json:"limit,omitempty"`
	// Ratio is Ours to Limit.
	Ratio *float64 `json:"ratio,omitempty"`
	Aim   *Aim     `json:"aim,omitempty"`
	Met   *bool    `json:"met,omitempty"`
	// Range is the least and the most of the rounds that Ours is the median of.
	Range []float64 `json:"range,omitempty"`
	// CPU is the processor time in milliseconds that a run cost each process, by its name.
	CPU map[string]float64 `json:"cpu,omitempty"`
}

// Aim is what a value should be, as in "ours ≤ 15" or "ratio ≥ 0.8".
type Aim struct {
	// Of is the value that it is about: ours or ratio.
	Of string
	// Least says that Value is the least that it may be; otherwise it is the most.
	Least bool
	Value float64
}

// The values that an Aim can be about.
const (
	OfOurs  = "ours"
	OfRatio = "ratio"
)

const least, most = "≥", "≤"

// String writes it as ParseAim reads it.
func (a Aim) String() string {
	sign := most
	if a.Least {
		sign = least
	}
	return a.Of + " " + sign + " " + strconv.FormatFloat(a.Value, 'f', -1, 64)
}

// ParseAim reads an Aim.
func ParseAim(text string) (Aim, error) {
	words := strings.Split(text, " ")
	if len(words) != 3 || words[0] != OfOurs && words[0] != OfRatio || words[1] != least && words[1] != most {
		return Aim{}, fmt.Errorf("aim %q: expected %q or %q, %q or %q, and a number", text, OfOurs, OfRatio, most, least)
	}
	value, err := strconv.ParseFloat(words[2], 64)
	if err != nil || math.IsNaN(value) || math.IsInf(value, 0) {
		return Aim{}, fmt.Errorf("aim %q: expected a number, %q is none", text, words[2])
	}
	return Aim{Of: words[0], Least: words[1] == least, Value: value}, nil
}

// MarshalJSON writes it as text.
func (a Aim) MarshalJSON() ([]byte, error) { return json.Marshal(a.String()) }

// UnmarshalJSON reads it.
func (a *Aim) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("aim: %w", err)
	}
	parsed, err := ParseAim(s)
	*a = parsed
	return err
}

// New is a figure of a value alone.
func New(id, figure, unit string, ours float64) Figure {
	o := Round(ours)
	return Figure{ID: id, Figure: figure, Unit: unit, Ours: &o}
}

// Against compares it with the limit.
func (f Figure) Against(limit float64) Figure {
	l := Round(limit)
	f.Limit, f.Ratio = &l, nil
	if f.Ours != nil && limit != 0 {
		r := Round(*f.Ours / limit)
		f.Ratio = &r
	}
	return f.judged()
}

// Aims says what is aimed at, as ParseAim reads it. It panics where that cannot be read: aims are constants.
func (f Figure) Aims(aim string) Figure {
	a, err := ParseAim(aim)
	if err != nil {
		panic(err)
	}
	f.Aim = &a
	return f.judged()
}

// Of says which rounds Ours is the median of.
func (f Figure) Of(rounds []float64) Figure {
	f.Range = nil
	if len(rounds) > 1 {
		low, high := rounds[0], rounds[0]
		for _, r := range rounds {
			low, high = min(low, r), max(high, r)
		}
		f.Range = []float64{Round(low), Round(high)}
	}
	return f
}

// Costs says what processor time a run cost, in milliseconds by process.
func (f Figure) Costs(cpu map[string]float64) Figure {
	f.CPU = map[string]float64{}
	for name, millis := range cpu {
		f.CPU[name] = Round(millis)
	}
	return f
}

// judged says whether the aim is met.
func (f Figure) judged() Figure {
	f.Met = nil
	if f.Aim == nil {
		return f
	}
	value := f.Ours
	if f.Aim.Of == OfRatio {
		value = f.Ratio
	}
	if value == nil {
		return f
	}
	met := *value <= f.Aim.Value
	if f.Aim.Least {
		met = *value >= f.Aim.Value
	}
	f.Met = &met
	return f
}
