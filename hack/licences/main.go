// Command licences fails when a program links code under a licence that is not on the list. Each argument is a directory of a
// module and the packages of its programs, as in ../..=./cmd/harness,./cmd/controller. With -json it prints each module with its
// licences and their texts instead of counts; with -platform as in linux/arm64 it looks at what is linked there.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

func main() {
	asJSON := flag.Bool("json", false, "print the modules as JSON")
	platform := flag.String("platform", "", "`OS/ARCHITECTURE` that is built for, if not this one")
	flag.Parse()
	if err := run(flag.Args(), *platform, *asJSON, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
}

func run(args []string, platform string, asJSON bool, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("expected arguments DIRECTORY=PACKAGE,PACKAGE…")
	}
	var linked []module
	for _, arg := range args {
		dir, packages, found := strings.Cut(arg, "=")
		if !found {
			return fmt.Errorf("%q: expected DIRECTORY=PACKAGE,PACKAGE…", arg)
		}
		more, err := modules(dir, strings.Split(packages, ","), platform)
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
	var told []notice
	for _, m := range linked {
		ids, texts, err := m.check()
		if err != nil {
			refused = append(refused, fmt.Errorf("%s: %w", m.name(), err))
		}
		for _, id := range ids {
			found[id]++
		}
		told = append(told, notice{Path: m.path, Version: m.version, Licences: ids, Texts: texts})
	}
	if err := errors.Join(refused...); err != nil {
		return fmt.Errorf("not on the list of licences (hack/licences/allowed.go):\n%w", err)
	}
	if asJSON {
		return json.NewEncoder(out).Encode(told)
	}
	var counts []string
	for id, n := range found {
		counts = append(counts, fmt.Sprintf("%s %d", id, n))
	}
	slices.Sort(counts)
	_, err := fmt.Fprintf(out, "licences: %d modules linked: %s\n", len(linked), strings.Join(counts, ", "))
	return err
}

// notice is what has to go with a program that links the module.
type notice struct {
	Path     string   `json:"path"` // std is the standard library
	Version  string   `json:"version"`
	Licences []string `json:"licences"` // SPDX
	Texts    []string `json:"texts"`
}
