package main

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/hearthdev/hearth/test/cluster"
)

// play is the demo from a running cluster to its last line.
func play(ctx context.Context, c *cluster.Cluster, p provider, out io.Writer) error {
	if err := prepare(ctx, c, p); err != nil {
		return err
	}
	m := newMarker()
	var results []result
	for _, a := range asks(m, p.scripted) {
		r, err := deliver(ctx, c, a)
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	marked, unread := readMarker(ctx, c, results[1], m)
	for _, r := range results {
		printTimeline(out, r)
	}
	if err := check(results, m, marked, unread); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "\nmarker    %s in Pod %s holds %q: the shell command ran once\n", m.file(), results[1].run.Status.PodName, strings.TrimSpace(marked))
	took, err := coldStart(ctx, c, results[0].run.Status.PodName)
	if err != nil {
		return fmt.Errorf("measure a cold start: %w", err)
	}
	printComparison(out, took, results)
	if err := table(ctx, c, out); err != nil {
		return err
	}
	printNext(out, c.Kubeconfig, results[0].run.Name)
	return nil
}

// printComparison sets what a run waited for beside what it would have waited for in a Pod of its own.
func printComparison(out io.Writer, cold time.Duration, results []result) {
	_, _ = fmt.Fprintf(out, "\ncold      a Pod of the same image, created → Ready: %s\nwarm      created → accepted by the standing agent:", milli(cold))
	for _, r := range results {
		_, _ = fmt.Fprintf(out, " %s", milli(r.run.Status.Delivery.AcceptedAt.Sub(r.sent)))
	}
	_, _ = fmt.Fprintln(out)
}

// table shows the objects as a user sees them.
func table(ctx context.Context, c *cluster.Cluster, out io.Writer) error {
	kubectl, err := findKubectl(ctx)
	if err != nil {
		return err
	}
	// #nosec G204 -- constant arguments
	cmd := exec.CommandContext(ctx, kubectl, "--kubeconfig", c.Kubeconfig, "--namespace", demoNamespace, "get", "agents,agentruns,pods")
	_, _ = fmt.Fprintf(out, "\n$ kubectl -n %s get agents,agentruns,pods\n", demoNamespace)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", kubectl, err)
	}
	return nil
}

// findKubectl takes the one in PATH, else the one that the cluster was built with.
func findKubectl(ctx context.Context) (string, error) {
	if kubectl, err := exec.LookPath("kubectl"); err == nil {
		return kubectl, nil
	}
	dir, err := exec.CommandContext(ctx, "hack/cluster/cluster", "assets").Output()
	if err != nil {
		return "", fmt.Errorf("no kubectl in PATH, and hack/cluster/cluster assets: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(dir)), "kubectl"), nil
}

func printNext(out io.Writer, kubeconfig, run string) {
	_, _ = fmt.Fprintf(out, `
Next:
  export KUBECONFIG=%[1]s
  export PATH=$(hack/cluster/cluster assets):$PATH
  # what was asked, what it was resolved to, what came of it
  kubectl -n %[2]s get agentrun %[3]s -o yaml
  # ask for something yourself
  echo '{"apiVersion":"hearth.dev/v1alpha1","kind":"AgentRun","metadata":{"generateName":"review-"},"spec":{"agentRef":{"name":"reviewer"},"parameters":{"change":"PR 20","concern":"style"}}}' |
    kubectl -n %[2]s create -f -
  kubectl -n %[2]s get agentruns --watch
  # remove everything
  make demo-down
`, kubeconfig, demoNamespace, run)
}
