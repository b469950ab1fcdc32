// Command install makes what people install Hearth with out of config/, so that each object has one source.
//
//	go run ./hack/install manifest            dist/install.yaml
//	go run ./hack/install chart               charts/hearth/files, which the templates read
//	go run ./hack/install release -out DIR …  both with the names of released images
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

const usage = `usage: install manifest [-root DIR]   write dist/install.yaml
       install chart [-root DIR]      write charts/hearth/files
       install release [-root DIR] -out DIR -image-controller IMAGE -version VERSION
                                      write DIR/install.yaml and DIR/hearth, the chart, for released images`

func main() {
	if err := run(os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "install:", err)
		os.Exit(1)
	}
}

func run(args []string, errs io.Writer) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	set := flag.NewFlagSet(args[0], flag.ContinueOnError)
	set.SetOutput(errs)
	root := set.String("root", ".", "the project's `directory`")
	r := release{}
	if args[0] == "release" {
		set.StringVar(&r.out, "out", "", "the `directory` to write to")
		set.StringVar(&r.controller, "image-controller", "", "the controller's `image`, with its tag or digest")
		set.StringVar(&r.version, "version", "", "the chart's `version`, as in 0.2.0")
	}
	if err := set.Parse(args[1:]); err != nil {
		return fmt.Errorf("flags: %w", err)
	}
	if set.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: %s", set.Arg(0), usage)
	}
	switch args[0] {
	case "manifest":
		return writeManifest(*root, devImage, manifestFile(*root))
	case "chart":
		return writeChartFiles(*root, chartDir(*root))
	case "release":
		return r.write(*root)
	default:
		return fmt.Errorf("unknown command %q: %s", args[0], usage)
	}
}
