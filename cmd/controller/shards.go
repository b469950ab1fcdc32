package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/hearthdev/hearth/controller/sharding"
)

// newElection is that of a shard, nil for a controller of every Agent: that one has the usual election, and no right to see others.
func newElection(config *rest.Config, o options, log *slog.Logger) (*sharding.Election, error) {
	if o.agents.Everything() {
		return nil, nil //nolint:nilnil // no election of its own, and no error
	}
	host, err := os.Hostname() // a Pod's is its name
	if err != nil {
		log.Warn("this machine has no name for its Lease", "error", err)
	}
	e, err := sharding.NewElection(config, o.namespace, &sharding.Election{
		Own: o.agents, Identity: cmp.Or(host, "without-a-name") + "_" + string(uuid.NewUUID()), Now: time.Now, After: time.After, Log: log,
	})
	if err != nil {
		return nil, fmt.Errorf("shards: %w", err)
	}
	return e, nil
}

// watchShards has the leader of a shard look at the others.
func watchShards(mgr manager.Manager, e *sharding.Election, o options, log *slog.Logger) error {
	if e == nil {
		return nil
	}
	if err := mgr.Add(&sharding.Watch{Own: o.agents, Holdings: e.Holdings, Agents: mgr.GetClient(), After: time.After, Log: log}); err != nil {
		return fmt.Errorf("shards: %w", err)
	}
	return nil
}
