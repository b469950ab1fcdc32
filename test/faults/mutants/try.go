package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// result is what became of one mutant.
type result struct {
	patch
	err  error // why it does not count as seen
	took time.Duration
}

// try tries all patches, each in a copy of the tree, after it was seen that their tests are green without them.
func try(ctx context.Context, o options, patches []patch, out io.Writer) error {
	scratch, err := os.MkdirTemp("", "hearth-mutants-")
	if err != nil {
		return fmt.Errorf("scratch: %w", err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	trees := make(chan string, o.jobs)
	for i := range o.jobs {
		tree := filepath.Join(scratch, fmt.Sprint(i))
		if err := copyTree(ctx, o.root, tree); err != nil {
			return err
		}
		trees <- tree
	}
	began := time.Now()
	if err := greenBefore(ctx, o, patches, trees); err != nil {
		return err
	}
	fmt.Fprintf(out, "all named tests are green without a patch (%s)\n", time.Since(began).Round(time.Second)) //nolint:errcheck // stdout
	results := make([]result, len(patches))
	var work sync.WaitGroup
	for i, p := range patches {
		tree := <-trees
		work.Go(func() {
			began := time.Now()
			err := mutant(ctx, o, p, tree)
			results[i] = result{p, err, time.Since(began)}
			word := "seen"
			if err != nil {
				word = "NOT SEEN"
			}
			fmt.Fprintf(out, "%s: %s (%s)\n", p.name, word, results[i].took.Round(time.Second)) //nolint:errcheck // stdout
			trees <- tree
		})
	}
	work.Wait()
	return table(out, results)
}

// greenBefore runs every test that any patch names: one that is red anyhow sees nothing.
func greenBefore(ctx context.Context, o options, patches []patch, trees chan string) error {
	var all []seer
	for _, p := range patches {
		all = append(all, p.red...)
	}
	suites := group(all)
	failed := make([]error, len(suites))
	var work sync.WaitGroup
	for i, s := range slices.SortedFunc(maps.Keys(suites), func(a, b suite) int { return strings.Compare(a.pkg+a.tags, b.pkg+b.tags) }) {
		tree := <-trees
		work.Go(func() {
			defer func() { trees <- tree }()
			r, err := goTest(ctx, tree, s, suites[s], 2*o.limit)
			failed[i] = err
			for _, test := range suites[s] {
				if err == nil && r.verdicts[test] != green {
					failed[i] = errors.Join(failed[i], fmt.Errorf("%s.%s is not green without any patch:\n%s", s.pkg, test, tail(r.text)))
				}
			}
		})
	}
	work.Wait()
	return errors.Join(failed...)
}

// mutant applies one patch and sees whether all its tests are red.
func mutant(ctx context.Context, o options, p patch, tree string) (err error) {
	if err := apply(ctx, tree, p.file); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, apply(context.WithoutCancel(ctx), tree, p.file, "-R")) }()
	for s, tests := range group(p.red) {
		r, err := goTest(ctx, tree, s, tests, o.limit)
		switch {
		case err != nil:
			return err
		case !r.built:
			return fmt.Errorf("it does not compile, which no test has seen:\n%s", tail(r.text))
		}
		for _, test := range tests {
			if err := seen(ctx, o, tree, s, test, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// seen tells whether a test is red: by what was said when it ran with others, or alone when one of them took the process down.
func seen(ctx context.Context, o options, tree string, s suite, test string, r report) error {
	if v := r.verdicts[test]; v == none || v == begun {
		alone, err := goTest(ctx, tree, s, []string{test}, o.limit)
		if err != nil {
			return err
		}
		if r = alone; r.verdicts[test] == begun {
			return nil
		}
	}
	var err error
	switch r.verdicts[test] {
	case red:
		return nil
	case green:
		err = fmt.Errorf("%s.%s stays green", s.pkg, test)
	case none, skipped, begun:
		err = fmt.Errorf("%s.%s did not run:\n%s", s.pkg, test, tail(r.text))
	}
	if o.verbose {
		return fmt.Errorf("%w\n%s", err, r.text)
	}
	return err
}

func group(all []seer) map[suite][]string {
	suites := map[suite][]string{}
	for _, s := range all {
		if !slices.Contains(suites[s.suite], s.test) {
			suites[s.suite] = append(suites[s.suite], s.test)
		}
	}
	return suites
}

// table prints what became of all, and is an error when one was not seen.
func table(out io.Writer, results []result) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nmutant\trows\tseen by\ttime") //nolint:errcheck // a buffer
	var missed []error
	for _, r := range results {
		var by []string
		for _, s := range r.red {
			by = append(by, s.test)
		}
		seen := strings.Join(by, ", ")
		if r.err != nil {
			seen = "NOT SEEN"
			missed = append(missed, fmt.Errorf("%s (%s): %w", r.name, r.removes, r.err))
		}
		rows := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(r.rows)), ", "), "[]")
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.name, rows, seen, r.took.Round(time.Second)) //nolint:errcheck // a buffer
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("table: %w", err)
	}
	if len(missed) > 0 {
		return fmt.Errorf("%d of %d mutants were not seen:\n%w", len(missed), len(results), errors.Join(missed...))
	}
	return nil
}

// tail is the end of a long text.
func tail(text string) string {
	const most = 2000
	if len(text) > most {
		return "…" + text[len(text)-most:]
	}
	return text
}
