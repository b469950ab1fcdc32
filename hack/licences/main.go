// Command licences fails when a program links code under a licence that is not on the list. Each argument is a directory of a
// module and the packages of its programs, as in ../..=./cmd/harness,./cmd/controller.
package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("expected arguments DIRECTORY=PACKAGE,PACKAGE…")
	}
	var linked []module
	for _, arg := range args {
		dir, packages, found := strings.Cut(arg, "=")
		if !found {
			return fmt.Errorf("%q: expected DIRECTORY=PACKAGE,PACKAGE…", arg)
		}
		more, err := modules(dir, strings.Split(packages, ","))
		if err != nil {
			return err
		}
		linked = append(linked, more...)
	}
	slices.SortFunc(linked, func(a, b module) int { return strings.Compare(a.name()+a.dir, b.name()+b.dir) })
	for i := len(linked) - 1; i > 0; i-- { // programs share modules, and not all of their packages
		if linked[i].dir == linked[i-1].dir {
			linked[i-1].packages = append(linked[i-1].packages, linked[i].packages...)
			linked = slices.Delete(linked, i, i+1)
		}
	}
	found := map[string]int{}
	var refused []error
	for _, m := range linked {
		ids, err := m.check()
		if err != nil {
			refused = append(refused, fmt.Errorf("%s: %w", m.name(), err))
		}
		for _, id := range ids {
			found[id]++
		}
	}
	if err := errors.Join(refused...); err != nil {
		return fmt.Errorf("not on the list of licences (hack/licences/allowed.go):\n%w", err)
	}
	var counts []string
	for id, n := range found {
		counts = append(counts, fmt.Sprintf("%s %d", id, n))
	}
	slices.Sort(counts)
	fmt.Printf("licences: %d modules linked: %s\n", len(linked), strings.Join(counts, ", "))
	return nil
}
