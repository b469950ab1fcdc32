package node

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// start makes a node from nothing: files, network, then the components in order of need.
func (c Cluster) start(ctx context.Context, b Binaries) error {
	p := c.Place
	if err := c.prepare(ctx); err != nil {
		return err
	}
	workers := p.workers(b)
	s := newStarter(p, len(p.components(b)))
	if err := c.startAll(ctx, s, p.storage(b)...); err != nil {
		return err
	}
	if err := c.startAll(ctx, s, p.apiserver(b)); err != nil {
		return err
	}
	image, err := p.writePauseImage(filepath.Join(b.Pause, "pause"))
	if err != nil {
		return err
	}
	if err := c.Load(ctx, image); err != nil {
		return err
	}
	if err := p.apply(ctx, b); err != nil {
		return err
	}
	if err := c.startAll(ctx, s, workers...); err != nil {
		return err
	}
	c.say("waiting for node %s", NodeName)
	return s.await(ctx, "kubelet", p.nodeReady)
}

func (c Cluster) prepare(ctx context.Context) error {
	p := c.Place
	if err := p.writeConfiguration(); err != nil {
		return err
	}
	if err := p.saveSysctls(); err != nil {
		return err
	}
	if err := p.writeCredentials(c.Now()); err != nil {
		return err
	}
	if err := p.makeNetwork(ctx); err != nil {
		return err
	}
	return makeCgroups()
}

// startAll starts components side by side and waits for each.
func (c Cluster) startAll(ctx context.Context, s *starter, components ...component) error {
	names := make([]string, 0, len(components))
	for _, component := range components {
		names = append(names, component.name)
	}
	c.say("starting %s", strings.Join(names, ", "))
	for _, component := range components {
		if err := s.launch(ctx, component); err != nil {
			return err
		}
	}
	for _, component := range components {
		if err := s.await(ctx, component.name, component.probe); err != nil {
			return err
		}
	}
	return nil
}

// apply creates the roles that the API server does not make by itself.
func (p Place) apply(ctx context.Context, b Binaries) error {
	manifest, err := render("rbac.yaml", p.settings())
	if err != nil {
		return err
	}
	// #nosec G204 -- what we built
	cmd := exec.CommandContext(ctx, filepath.Join(b.Kube, "kubectl"), "--kubeconfig="+p.Kubeconfig(), "apply", "--filename=-")
	cmd.Stdin = strings.NewReader(string(manifest))
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("create the cluster's roles: %w: %s", err, lastLines(string(output)))
	}
	return nil
}
