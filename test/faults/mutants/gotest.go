package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// verdict is what became of a test.
type verdict int

const (
	none  verdict = iota // it was not run
	green                // it passed
	red                  // it failed, or was under way when its time was over
	skipped
	begun // and did not come to its end: it, or one beside it, took the process down
)

// event is a line of go test -json.
type event struct {
	Action, Test, Output string
}

// report is what one go test said.
type report struct {
	verdicts map[string]verdict
	built    bool
	text     string
}

var underWay = regexp.MustCompile(`^\s+(Test\w+) \(`) // "running tests:" of a time-out

// goTest runs tests of one suite in a tree.
func goTest(ctx context.Context, dir string, s suite, tests []string, limit time.Duration) (report, error) {
	args := []string{"test", "-json", "-count=1", "-vet=off", "-timeout=" + limit.String(), "-run=^(" + strings.Join(tests, "|") + ")$", "-tags=" + s.tags}
	if s.short {
		args = append(args, "-short")
	}
	ctx, cancel := context.WithTimeout(ctx, 2*limit) // with the build
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+s.pkg)...) //nolint:gosec // our own arguments
	cmd.Dir = dir
	// It ends by itself and takes what it started along, where it can.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return report{}, fmt.Errorf("%s took too long: %w", s.pkg, context.Cause(ctx))
	}
	return read(out, err == nil), nil
}

// read reads the events. What is no event is said of the build.
func read(out []byte, passed bool) report {
	r := report{verdicts: map[string]verdict{}, built: true}
	var text strings.Builder
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, len(out)+1)
	timedOut := false
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			text.Write(lines.Bytes())
			text.WriteByte('\n')
			continue
		}
		text.WriteString(e.Output)
		timedOut = timedOut || strings.HasPrefix(e.Output, "panic: test timed out after")
		switch {
		case e.Action == "build-fail":
			r.built = false
		case e.Action == "output":
			if found := underWay.FindStringSubmatch(e.Output); timedOut && found != nil {
				r.verdicts[found[1]] = red
			}
		case e.Test == "": // the whole package's
		case e.Action == "run":
			r.verdicts[e.Test] = begun
		case e.Action == "pass":
			r.verdicts[e.Test] = green
		case e.Action == "skip":
			r.verdicts[e.Test] = skipped
		case e.Action == "fail":
			r.verdicts[e.Test] = red
		}
	}
	r.text = text.String()
	if !passed && len(r.verdicts) == 0 && strings.Contains(r.text, "[setup failed]") {
		r.built = false
	}
	return r
}
