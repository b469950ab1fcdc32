package figures

import (
	"math"
	"slices"
	"strconv"
	"time"
)

// digits is how many digits of a figure are kept: more would change with every run and say nothing.
const digits = 3

// Round keeps three digits; of a number above 999 all that stand before the point.
func Round(x float64) float64 {
	if x == 0 || math.IsNaN(x) || math.IsInf(x, 0) {
		return x
	}
	behind := max(0, digits-1-int(math.Floor(math.Log10(math.Abs(x)))))
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(x, 'f', behind, 64), 64)
	if err != nil {
		return x
	}
	return rounded
}

// Percentile is the smallest value that at least p percent of all are not above (nearest rank); p is above 0 and at most 100. NaN
// where there are no values.
func Percentile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Median is the middle value, or the mean of the two in the middle. NaN where there are no values.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Millis are durations in milliseconds.
func Millis(durations []time.Duration) []float64 {
	out := make([]float64, len(durations))
	for i, d := range durations {
		out[i] = float64(d) / float64(time.Millisecond)
	}
	return out
}
