package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// R55: lists show what there is, to people and to programs.
func TestListsOfRunsAndAgents(t *testing.T) {
	w := newWorld(t)
	assert.Equal(t, "no runs in namespace "+w.namespace+"\n", w.hearth("runs").exits(0).err.String())
	busy, over := w.made("busy"), w.made("over")
	w.plays(busy, hearthv1.PhasePending, hearthv1.ReasonTargetBusy, "all are busy\x1b[2J")
	w.plays(over, hearthv1.PhaseSucceeded, hearthv1.ReasonCompleted, "", ended("done"))
	out := w.hearth("runs", "-o", "wide").exits(0).out.String()
	assert.Regexp(t, `(?m)^NAME +AGENT +PHASE +REASON +AGE +DURATION +POD +ATTEMPT +MESSAGE$`, out)
	assert.Regexp(t, `(?m)^busy +reviewer +Pending +TargetBusy +\S+ +- +- +- +all are busy�\[2J$`, out)
	assert.Equal(t, "agentrun.hearth.dev/over\n", w.hearth("runs", "reviewer", "--phase", "succeeded", "-o", "name").exits(0).out.String())
	assert.Equal(t, "agentrun.hearth.dev/busy\n", w.hearth("runs", "--reason", "TargetBusy", "-o", "name").exits(0).out.String())
	assert.Contains(t, w.hearth("runs", "--phase", "Nope").exits(64).err.String(), "--phase: expected Pending, Running, Succeeded, Failed")
	assert.Regexp(t, `(?m)^reviewer +Service +\S+ +\S+ +0/1 +0 +1 `, w.hearth("agents").exits(0).out.String())
	assert.Equal(t, "agent.hearth.dev/reviewer\n", w.hearth("agents", "-o", "name").exits(0).out.String())

	p := w.hearth("runs", "-w")
	require.Eventually(t, func() bool { return strings.Contains(p.out.String(), "busy ") }, patience, 10*time.Millisecond)
	require.NoError(t, w.admin.Delete(t.Context(), over))
	require.Eventually(t, func() bool { return strings.Contains(p.out.String(), "Deleted") }, patience, 10*time.Millisecond)
	require.NoError(t, p.Process.Signal(os.Interrupt))
	p.exits(0)
}

// R55: as kubectl-hearth on the PATH it is kubectl hearth, and says so; kubectl completes its words.
func TestKubectlHearth(t *testing.T) {
	w := newWorld(t)
	run := func(args ...string) string {
		p := w.command("kubectl", args...)
		require.NoError(t, p.Start())
		return p.exits(0).out.String()
	}
	assert.Contains(t, run("hearth", "run", "--help"), "  kubectl hearth run AGENT")
	assert.Equal(t, "agent.hearth.dev/reviewer\n", run("hearth", "agents", "-n", w.namespace, "-o", "name"))
	script := run("hearth", "completion", "kubectl")
	require.NoError(t, os.WriteFile(filepath.Join(w.bin, "kubectl_complete-hearth"), []byte(script), 0o700)) //nolint:gosec // a script is to be run
	assert.Contains(t, run("__complete", "hearth", "run", "-n", w.namespace, "rev"), "reviewer")
}

// R55: the script that bash sources completes agents, runs and parameters out of the cluster.
func TestBashCompletesNames(t *testing.T) {
	w := newWorld(t)
	w.made("mine")
	for line, want := range map[string]string{
		"hearth run -n %s rev":            "reviewer",
		"hearth cancel -n %s mi":          "mine",
		"hearth run -n %s reviewer -p ch": "change=",
	} {
		line = fmt.Sprintf(line, w.namespace)
		script := `source <(hearth completion bash); _get_comp_words_by_ref() { words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD; cur=${words[cword]}; prev=${words[cword-1]}; }
compopt() { :; }; __ltrim_colon_completions() { :; }
COMP_LINE="$1"; read -ra COMP_WORDS <<<"$1"; COMP_CWORD=$((${#COMP_WORDS[@]}-1)); COMP_POINT=${#COMP_LINE}; COMP_TYPE=9
__start_hearth hearth; printf '%s\n' "${COMPREPLY[@]}"`
		p := w.command("hearth")
		p.Path, p.Args = "/bin/bash", []string{"bash", "-c", script, "bash", line}
		require.NoError(t, p.Start())
		assert.Contains(t, p.exits(0).out.String(), want, "%s: %s", line, p.err)
	}
}

// R55: on a terminal a line changes while it waits, the output commands nothing, and NO_COLOR is obeyed.
func TestOnATerminal(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		env         string
		spins, dyes bool
	}{{"X=", true, true}, {"NO_COLOR=1", true, false}, {"TERM=dumb", false, false}} {
		run := w.made("on-" + strings.ToLower(strings.NewReplacer("=", "-", "_", "-").Replace(c.env)) + "x")
		master, slave := terminal(t)
		p := w.command("hearth", "wait", run.Name, "-n", w.namespace)
		p.Env, p.Stdout, p.Stderr, p.Stdin = append(p.Env, c.env), slave, slave, slave
		require.NoError(t, p.Start())
		require.NoError(t, slave.Close())
		shown := &buffer{}
		done := make(chan struct{})
		go func() {
			defer close(done)
			part := make([]byte, 4096)
			for n, err := master.Read(part); err == nil; n, err = master.Read(part) {
				_, _ = shown.Write(part[:n])
			}
		}()
		require.Eventually(t, func() bool { return strings.Contains(shown.String(), "Pending") }, patience, 10*time.Millisecond)
		w.plays(run, hearthv1.PhaseSucceeded, hearthv1.ReasonCompleted, "", ended("\x1b]0;owned\x07\u009b2Jwell\u202e"))
		p.exits(0)
		<-done
		text := shown.String()
		assert.Equal(t, c.spins, strings.Contains(text, "\r\x1b[K"), "%q", text)
		assert.Equal(t, c.dyes, strings.Contains(text, "\x1b[32m"), "%q", text)
		assert.Contains(t, text, "�]0;owned��2Jwell�\r\n")
		assert.NotContains(t, text, "\x1b]")
		assert.NotContains(t, text, "\u009b")
	}
}

// terminal is a new pseudo-terminal: what a program writes to one end is read from the other.
func terminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = master.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 100}))
	return master, slave
}
