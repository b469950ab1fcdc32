package cli

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// On a terminal one line changes, never longer than the terminal is wide, under the lines that stay.
func TestALineThatChanges(t *testing.T) {
	var b bytes.Buffer
	p := &progress{out: &b, terminal: true, width: func() int { return 20 }}
	said := func() string {
		defer b.Reset()
		return b.String()
	}
	p.draw(hearthv1.PhasePending, "0s  x: Pending")
	assert.Equal(t, "\r\x1b[K| 0s x: Pending", said())
	p.draw(hearthv1.PhasePending, "1s  x: Pending and \x1b[2J more")
	assert.Equal(t, "\r\x1b[K/ 1s x: Pending an…", said())
	p.change("not shown: the line shows it")
	assert.Empty(t, said())
	p.say("stays")
	assert.Equal(t, "\r\x1b[Kstays\n", said())
	p.clear()
	assert.Empty(t, said(), "there is nothing to take away")
	p.draw(hearthv1.PhasePending, "")
	assert.Empty(t, said())

	p.draw(hearthv1.PhaseRunning, "x")
	p.hold(true)
	said()
	p.draw(hearthv1.PhaseRunning, "x")
	assert.Empty(t, said(), "somebody else writes")
	p.change("shown now")
	assert.Equal(t, "shown now\n", said())
	p.hold(false)

	p.colour = true
	p.draw(hearthv1.PhaseRunning, "x")
	assert.Contains(t, said(), "\x1b[36mx\x1b[0m")
	p.end(hearthv1.PhaseFailed, []string{"x: Failed", "  \x1b[31mwhy"})
	assert.Equal(t, "\r\x1b[K\x1b[31mx: Failed\x1b[0m\n  �[31mwhy\n", said())
	assert.Equal(t, spinEvery, p.every())
}

// Without a terminal there are lines of changes, and no more.
func TestLinesWithoutATerminal(t *testing.T) {
	var b bytes.Buffer
	p := &progress{out: &b}
	p.draw(hearthv1.PhasePending, "0s  x: Pending")
	p.change("x: Pending")
	p.say()
	p.end(hearthv1.PhaseSucceeded, []string{"x: Succeeded"})
	p.clear()
	assert.Equal(t, "x: Pending\nx: Succeeded\n", b.String())
	assert.Equal(t, lookEvery, p.every())
}
