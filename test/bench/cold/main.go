// Command cold measures figure P4 on a real cluster with real goose: how long it takes from creating an AgentRun until its prompt is
// at the model when an agent stands, and from creating a Pod of the same image until its prompt is there.
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
	o := options{}
	flag.IntVar(&o.rounds, "rounds", 5, "how many `rounds`; each measures everything, and a figure is the median of its rounds")
	flag.IntVar(&o.warm, "warm", 40, "`runs` of a round that a standing agent carries out")
	flag.IntVar(&o.cold, "cold", 3, "`Pods` of a round, of each kind")
	flag.BoolVar(&o.keep, "keep", false, "keep the figures, and show them in the documentation")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := bench(ctx, o, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cold:", err)
		os.Exit(1)
	}
}
