package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// worded counts how often it is put into words.
type worded struct{ times *int }

func (w worded) LogValue() slog.Value {
	*w.times++
	return slog.StringValue("said")
}

// A look that says nothing costs no words; one that does says what it always said.
func TestValuesOfALoggerArePutIntoWordsOnlyWhenItSaysSomething(t *testing.T) {
	var out bytes.Buffer
	plain := logr.FromSlogHandler(slog.NewJSONHandler(&out, nil))
	lazy := logr.New(lazySink{LogSink: plain.GetSink()})
	times := 0
	with := func(l logr.Logger) logr.Logger {
		return l.WithName("deliver").WithValues("run", worded{&times}).WithName("run").WithValues("namespace", "team")
	}
	looked := with(lazy)
	other := looked.WithValues("reconcileID", "other")
	looked = looked.WithValues("reconcileID", "1")
	looked.V(5).Info("not said")
	assert.Zero(t, times)
	assert.Empty(t, out.String())

	fields := func(say func(logr.Logger), l logr.Logger) (m map[string]any) {
		out.Reset()
		say(l)
		require.NoError(t, json.Unmarshal(out.Bytes(), &m), out.String())
		delete(m, "time")
		return m
	}
	for _, say := range []func(logr.Logger){
		func(l logr.Logger) { l.Info("done", "n", 1) },
		func(l logr.Logger) { l.Error(errors.New("broken"), "not done", "n", 1) },
	} {
		want := fields(say, with(plain).WithValues("reconcileID", "1"))
		assert.Equal(t, "said", want["run"])
		assert.Equal(t, want, fields(say, looked))
		assert.Equal(t, "other", fields(say, other)["reconcileID"], "one look's values are not another's")
	}
}
