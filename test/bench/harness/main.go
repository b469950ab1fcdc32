// Command harness measures figures P5 and P8 of the harness as its users have it, a process of its own with the scripted agent: how long
// it takes to start, what it costs to speak to the agent through it, what each viewer costs, what it holds, and what its binary is made of.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == inPod {
		fmt.Fprintln(os.Stderr, "harness:", place(os.Args[2:]))
		os.Exit(1)
	}
	if len(os.Args) > 2 && os.Args[1] == asRelay {
		fmt.Fprintln(os.Stderr, "harness:", relay(os.Args[2]))
		os.Exit(1)
	}
	var o options
	flag.IntVar(&o.rounds, "rounds", 5, "how many `rounds`; a figure is the median of its rounds")
	flag.IntVar(&o.runs, "runs", 500, "`runs` after which memory is looked at again")
	flag.StringVar(&o.only, "only", "", "measure `starts` or prompts alone, and keep nothing")
	flag.BoolVar(&o.update, "update", false, "keep the figures, and show them in the documentation")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := bench(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "harness:", err)
		os.Exit(1)
	}
}
