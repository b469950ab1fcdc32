package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/hearthdev/hearth/hack/cluster/build"
)

// machineLock keeps two calls from changing the machine at once, whichever directories they use.
const machineLock = "/run/hearth-cluster.lock"

// Cluster is the one node this machine can hold.
type Cluster struct {
	Place    Place
	Progress io.Writer        // what is being done; never a program's result
	Now      func() time.Time // for certificates
}

// Up starts the node, or returns at once if it runs. Whatever an earlier node left is removed first.
// A failed start leaves only its logs.
func (c Cluster) Up(ctx context.Context, binaries Binaries) error {
	unlock, err := c.lock("start a cluster")
	if err != nil {
		return err
	}
	defer unlock()
	if err := c.checkOwner(ctx); err != nil {
		return err
	}
	components := c.Place.components(binaries)
	if c.healthy(ctx, components) {
		return c.mentionOtherBuild(binaries)
	}
	if err := c.clear(ctx); err != nil {
		return err
	}
	if err := installPackages(ctx, c.Progress); err != nil {
		return err
	}
	if err := errors.Join(checkAddresses(), checkPorts(components)); err != nil {
		return err
	}
	started := c.Now()
	if err := c.start(ctx, binaries); err != nil {
		if cleanup := c.Place.remove(context.WithoutCancel(ctx), true); cleanup != nil {
			return errors.Join(err, fmt.Errorf("clean up after the failed start: %w", cleanup))
		}
		return err
	}
	c.say("cluster ready after %s", c.Now().Sub(started).Round(time.Second))
	return nil
}

// Down stops the node and leaves nothing of it.
func (c Cluster) Down(ctx context.Context) error {
	unlock, err := c.lock("stop the cluster")
	if err != nil {
		return err
	}
	defer unlock()
	left, err := c.Place.leftovers()
	if err != nil {
		return err
	}
	if left {
		c.say("removing the cluster in %s", c.Place.dir)
		return c.Place.remove(ctx, false)
	}
	c.say("no cluster in %s", c.Place.dir)
	if whose, bridge, err := owner(); err == nil && bridge {
		c.say("there is one in %s: HEARTH_CLUSTER_DIR=%s make cluster-down", whose, whose)
	}
	return nil
}

// Load imports an image archive, as `docker save` writes it, into the node.
func (c Cluster) Load(ctx context.Context, archive string) error {
	if err := socketProbe(c.Place.socket())(ctx); err != nil {
		return fmt.Errorf("load %s: no cluster runs in %s (start one with make cluster-up): %w", archive, c.Place.dir, err)
	}
	// #nosec G204 -- no shell between us and ctr
	cmd := exec.CommandContext(ctx, "ctr", "--address", c.Place.socket(), "--namespace", "k8s.io", "images", "import", archive)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("load %s: %w: %s", archive, err, lastLines(string(output)))
	}
	return nil
}

// CheckRights explains what root is needed for, to anybody else.
func (Cluster) CheckRights(purpose string) error {
	if os.Geteuid() == 0 {
		return nil
	}
	return fmt.Errorf("root is needed to %s: containers, mounts and links belong to the whole machine (try sudo)", purpose)
}

func (c Cluster) lock(purpose string) (func(), error) {
	if err := c.CheckRights(purpose); err != nil {
		return nil, err
	}
	return build.Lock(machineLock, func() { c.say("waiting for another call that changes the cluster") })
}

// checkOwner refuses to start beside a node in another directory, and removes one that is dead.
func (c Cluster) checkOwner(ctx context.Context) error {
	whose, bridge, err := owner()
	if err != nil || !bridge || whose == "" || whose == c.Place.dir {
		return err
	}
	other := Place{dir: whose}
	running, err := other.running()
	if err != nil {
		return err
	}
	if len(running) > 0 {
		return fmt.Errorf("a cluster runs in %s, and this machine can hold one: HEARTH_CLUSTER_DIR=%s make cluster-down first", whose, whose)
	}
	c.say("removing what a cluster in %s left", whose)
	return other.remove(ctx, false)
}

// healthy says whether every component runs and the node is ready, and waits for a node that is only slow.
func (c Cluster) healthy(ctx context.Context, components []component) bool {
	const patience = time.Minute
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		running, err := c.Place.running()
		if err != nil {
			return false
		}
		names := map[string]bool{}
		for _, p := range running {
			if len(p.args) > 0 {
				names[p.component()] = true
			}
		}
		for _, component := range components {
			if !names[component.name] {
				return false
			}
		}
		if c.ready(ctx, components) == nil {
			return true
		}
		if pause(ctx) != nil {
			return false
		}
	}
}

// mentionOtherBuild says so when the running node is not what the sources would make now. Replacing it would lose
// what is in it, which is for the caller to decide.
func (c Cluster) mentionOtherBuild(binaries Binaries) error {
	running, err := c.Place.running()
	for _, p := range running {
		if filepath.Base(p.exe) == "kube" && filepath.Dir(p.exe) != binaries.Kube {
			c.say("the running cluster is another build (%s): make cluster-down cluster-up to replace it", filepath.Dir(p.exe))
			break
		}
	}
	return err
}

func (c Cluster) ready(ctx context.Context, components []component) error {
	for _, component := range components {
		if err := component.probe(ctx); err != nil {
			return fmt.Errorf("%s: %w", component.name, err)
		}
	}
	return c.Place.nodeReady(ctx)
}

// clear removes what an earlier node left in our directory.
func (c Cluster) clear(ctx context.Context) error {
	left, err := c.Place.leftovers()
	if err != nil || !left {
		return err
	}
	c.say("removing what an earlier cluster left in %s", c.Place.dir)
	return c.Place.remove(ctx, false)
}

func (c Cluster) say(format string, args ...any) {
	fmt.Fprintf(c.Progress, format+"\n", args...)
}
