package page

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/internal/gate"
)

// Options of SetupWithManager. Address, Replica, Now and Log are required.
type Options struct {
	// Address is host:port to listen on. Who reaches it sees every Agent and run that the controller serves.
	Address string
	// Hosts are names that the page may be asked for by, beside localhost and the loopback addresses: those of a proxy in front of it.
	Hosts []string
	// Replica is what this process is called, for people.
	Replica string
	Now     func() time.Time
	Log     *slog.Logger
}

// SetupWithManager listens on the address and lets the manager serve the page there, on every replica.
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	if o.Address == "" || o.Now == nil || o.Log == nil {
		return errors.New("page: expected an address, a clock and a logger")
	}
	s, err := newSite(o)
	if err != nil {
		return err
	}
	if s.synced, err = follow(mgr.GetCache(), s.index); err != nil {
		return err
	}
	elected := mgr.Elected()
	s.leads = func() bool {
		select {
		case <-elected:
			return true
		default:
			return false
		}
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", o.Address)
	if err != nil {
		return fmt.Errorf("status page: %w", err)
	}
	server := s.server()
	return mgr.Add(&manager.Server{
		Name: "status page", Server: server, Listener: bounded(listener), ShutdownTimeout: ptr.To(closeTimeout),
	})
}

// bounded is a listener whose connections have a bound that keeps nobody out: one more makes the oldest give way.
func bounded(listener net.Listener) net.Listener { return gate.New(listener, maxConnections) }

// follow fills the index from the cache. What it gives tells whether the index has everything that was there at the beginning.
func follow(c cache.Cache, x *index) (synced func() bool, err error) {
	var all []func() bool
	for _, object := range []kube.Object{&hearthv1.Agent{}, &hearthv1.AgentRun{}} {
		informer, err := c.GetInformer(context.Background(), object, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("status page: watch %T: %w", object, err)
		}
		registration, err := informer.AddEventHandler(x.handler())
		if err != nil {
			return nil, fmt.Errorf("status page: follow %T: %w", object, err)
		}
		all = append(all, registration.HasSynced)
	}
	return func() bool {
		for _, one := range all {
			if !one() {
				return false
			}
		}
		return true
	}, nil
}
