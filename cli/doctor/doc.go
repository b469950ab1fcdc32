// Package doctor is hearth doctor: it walks from the API server to the agent, and at the first broken link says what is wrong, what it
// saw and what to do. What it looks at is gathered once into an Observed; the checks are pure functions of that.
package doctor
