package delivery

import "time"

// Bounds of waiting (SPEC.md, Lifecycle, Clocks).
const (
	MinBackoff       = time.Second
	MaxBackoff       = 5 * time.Minute
	MaxRecastBackoff = time.Minute
	// HealthyAfter is how long a standing run must have been healthy for its recasts to be forgotten.
	HealthyAfter = 10 * time.Minute
)

// Backoff is how long a target is left alone after that many failures in a row: 1 s doubling to 5 min, of which jitter, a
// number in [0, 1), takes away up to a half.
func Backoff(failures int, jitter float64) time.Duration {
	d := doubled(failures, MaxBackoff)
	return max(MinBackoff, d-time.Duration(jitter*float64(d)/2))
}

// RetryAfter is how long a target is left alone that said itself how long, within [1 s, 5 min].
func RetryAfter(asked time.Duration) time.Duration { return min(max(asked, MinBackoff), MaxBackoff) }

// RecastBackoff is how long after the end of a standing run its replacement is made: 1 s doubling to 60 s (R29).
func RecastBackoff(recasts int) time.Duration { return doubled(recasts, MaxRecastBackoff) }

func doubled(failures int, limit time.Duration) time.Duration {
	d := MinBackoff
	for i := 1; i < failures && d < limit; i++ {
		d *= 2
	}
	return min(d, limit)
}
