package node

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// leftovers says whether anything of the node in p's directory exists.
func (p Place) leftovers() (bool, error) {
	if _, err := os.Stat(p.dir); err == nil {
		return true, nil
	}
	whose, bridge, err := owner()
	if err != nil || (bridge && (whose == p.dir || whose == "")) {
		return true, err
	}
	running, err := p.running()
	return len(running) > 0, err
}

func (p Place) running() ([]process, error) {
	all, err := processes("/proc")
	if err != nil {
		return nil, err
	}
	return owned(all, p.dir), nil
}

// remove ends the node and takes away everything it made, whatever state it is in. Nothing is asked to end by itself:
// all it could save is removed in the next step.
func (p Place) remove(ctx context.Context, keepLogs bool) error {
	if err := killAll(ctx, "stop the node", p.running); err != nil {
		return err
	}
	whose, bridge, err := owner()
	if err != nil {
		return err
	}
	// What is machine-wide is ours only if the bridge is, which is made before it and removed after it.
	machineWide := !bridge || whose == p.dir || whose == ""
	if machineWide {
		if err := killAll(ctx, "stop the containers", inCgroups); err != nil {
			return err
		}
	}
	if err := unmountUnder(p.dir); err != nil {
		return err
	}
	if machineWide {
		if err := errors.Join(removeCgroups(ctx), p.removeStrays(), p.restoreSysctls(), removeNetwork(ctx)); err != nil {
			return err
		}
	}
	return p.removeDir(keepLogs)
}

func (p Place) removeDir(keepLogs bool) error {
	if !keepLogs {
		if err := os.RemoveAll(p.dir); err != nil {
			return fmt.Errorf("remove the cluster directory: %w", err)
		}
		return nil
	}
	entries, err := os.ReadDir(p.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the cluster directory: %w", err)
	}
	for _, entry := range entries {
		if entry.Name() == "logs" {
			continue
		}
		if err := os.RemoveAll(p.path(entry.Name())); err != nil {
			return fmt.Errorf("remove the cluster directory: %w", err)
		}
	}
	return nil
}
