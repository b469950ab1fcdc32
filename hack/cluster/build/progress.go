package build

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

const (
	terminalInterval = time.Second      // a line rewritten in place
	logInterval      = 15 * time.Second // a new line in a log file
	tailLines        = 20
)

// run carries out cmd and says every while how long it has taken. A failure shows the end of the command's output.
func run(cmd *exec.Cmd, doing, hint string, progress io.Writer) error {
	output := &tail{}
	cmd.Stdout, cmd.Stderr = output, output
	stop := report(doing, hint, progress)
	err := cmd.Run()
	stop()
	if err != nil {
		return fmt.Errorf("%s: %w; the end of its output:\n%s", doing, err, output)
	}
	return nil
}

// report starts the progress lines and returns what ends them with the total.
func report(doing, hint string, progress io.Writer) func() {
	start, interval, begin, end := time.Now(), logInterval, "", "\n"
	if isTerminal(progress) {
		interval, begin, end = terminalInterval, "\r\033[K", ""
	}
	done := make(chan struct{})
	var finished sync.WaitGroup
	finished.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				fmt.Fprint(progress, begin+Line(doing, hint, time.Since(start))+end)
			}
		}
	})
	return func() {
		close(done)
		finished.Wait()
		fmt.Fprintf(progress, "%s%s\n", begin, Line(doing, "", time.Since(start)))
	}
}

// Line is one progress line, such as "building Kubernetes v1.37.2 … 2m15s (about 7 min on two cores the first time)".
func Line(doing, hint string, elapsed time.Duration) string {
	line := fmt.Sprintf("%s … %s", doing, elapsed.Round(time.Second))
	if hint != "" {
		line += " (" + hint + ")"
	}
	return line
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// tail keeps the end of what is written to it.
type tail struct {
	mu    sync.Mutex
	lines []string
	rest  string
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(t.rest+string(p), "\n")
	t.rest = lines[len(lines)-1]
	t.lines = append(t.lines, lines[:len(lines)-1]...)
	if extra := len(t.lines) - tailLines; extra > 0 {
		t.lines = append([]string(nil), t.lines[extra:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(append(append([]string(nil), t.lines...), t.rest), "\n")
}
