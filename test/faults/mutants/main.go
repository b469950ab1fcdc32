// Command mutants shows that the tests see what they are there for. Each *.patch beside it takes one protection out of the product and
// names the tests that must then be red; a mutant that they do not see makes the command fail. See README.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := command(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// options say which mutants are tried, and how.
type options struct {
	root    string // of the module
	patches string // directory
	only    *regexp.Regexp
	jobs    int
	limit   time.Duration // for each go test
	verbose bool
}

func command(ctx context.Context, args []string, out io.Writer) error {
	var o options
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.StringVar(&o.root, "root", ".", "the module's directory; it is only read")
	flags.StringVar(&o.patches, "patches", "test/faults/mutants", "directory of the patches, below it")
	flags.IntVar(&o.jobs, "jobs", 2, "mutants at once")
	flags.DurationVar(&o.limit, "limit", 3*time.Minute, "time for the tests of one package")
	flags.BoolVar(&o.verbose, "v", false, "print what the tests said that had to be red and were not")
	only := flags.String("run", "", "only the patches whose names match")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("mutants: %w", err)
	}
	var err error
	if o.only, err = regexp.Compile(*only); err != nil {
		return fmt.Errorf("mutants: -run: expected a regular expression: %w", err)
	}
	if o.jobs < 1 {
		return fmt.Errorf("mutants: -jobs: expected at least 1, got %d", o.jobs)
	}
	all, err := readPatches(filepath.Join(o.root, o.patches))
	if err != nil {
		return err
	}
	var chosen []patch
	for _, p := range all {
		if o.only.MatchString(p.name) {
			chosen = append(chosen, p)
		}
	}
	if len(chosen) == 0 {
		return fmt.Errorf("mutants: no patch in %s matches %q", o.patches, *only)
	}
	return try(ctx, o, chosen, out)
}
