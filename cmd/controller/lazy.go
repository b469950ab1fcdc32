package main

import (
	"slices"

	"github.com/go-logr/logr"
)

// lazySink is a log sink that puts values into words only where something is said. Every look at an object is given a logger of its own by
// controller-runtime, with six values, and next to none says anything with it.
type lazySink struct {
	logr.LogSink

	values []any
}

// Info implements logr.LogSink.
func (l lazySink) Info(level int, message string, values ...any) {
	l.LogSink.WithValues(l.values...).Info(level, message, values...)
}

// Error implements logr.LogSink.
func (l lazySink) Error(err error, message string, values ...any) {
	l.LogSink.WithValues(l.values...).Error(err, message, values...)
}

// WithValues implements logr.LogSink.
func (l lazySink) WithValues(values ...any) logr.LogSink {
	return lazySink{l.LogSink, append(slices.Clip(l.values), values...)}
}

// WithName implements logr.LogSink.
func (l lazySink) WithName(name string) logr.LogSink {
	return lazySink{l.LogSink.WithName(name), l.values}
}
